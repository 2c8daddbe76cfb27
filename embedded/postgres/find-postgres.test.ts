import { chmodSync, readlinkSync, statSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { canEnter, repairPostgres } from './find-postgres.ts'

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

t.test('knows which folders another user cannot enter', async (t) => {
  const dir = t.testdir({ closed: { inner: {} }, open: {} })
  chmodSync(path.join(dir, 'closed'), 0o700)
  const another = 61_111

  t.equal(await canEnter(path.join(dir, 'closed', 'inner'), another), false)
  t.equal(await canEnter(path.join(dir, 'open'), another), await canEnter(dir, another))
})
