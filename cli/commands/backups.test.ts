import { mkdir, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { lockDataDir } from '../../embedded/data-dir/data-dir-lock.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { writeBackupFile } from '../backup/backup-files.ts'
import { type Captured, runCaptured } from '../testing/run-captured.ts'

t.test('the list says why there is nothing to list', async (t) => {
  const folder = t.testdir({ empty: {}, file: '' })
  const missing = await list(path.join(folder, 'missing'))
  t.match(missing, { code: 1, out: '', err: /there is no folder .*missing \(MILLRACE_BACKUP_FOLDER\): .*disk is not mounted/ })
  t.match(await list(path.join(folder, 'empty')), { code: 0, err: /empty holds no backup/ })
  t.match(await list(path.join(folder, 'file')), { code: 1, err: /file is a file, not a folder: set MILLRACE_BACKUP_FOLDER/ })
})

t.test('the list shows a backup whose files are gone or shorter as damaged', async (t) => {
  const root = t.testdir()
  await makeBackup(path.join(root, 'millrace-20261101T000000Z'))
  const cut = await makeBackup(path.join(root, 'millrace-20261102T000000Z'))
  const gone = await makeBackup(path.join(root, 'millrace-20261103T000000Z'))
  await mkdir(path.join(root, 'millrace-20261104T000000Z'))
  await truncate(cut, 3)
  await rm(gone)

  const table = await list(root)

  t.equal(table.code, 0, table.err)
  t.match(table.out.split('\n').slice(1), [/04T0.*not complete/, /03T0.* damaged /, /02T0.* damaged /, /01T0.* 0\.1\.0 /])
  t.match(JSON.parse((await list(root, '--json')).out), [{}, { damage: 'damaged', lost_file: 'clickhouse/data.bin' }])
})

t.test('a backup of another program is recorded with its location or its error', async (t) => {
  const { sql, url } = await createTestPostgres(t)
  const record = async (...options: string[]): Promise<Captured> =>
    await runCaptured(['backups', 'record', ...options], { DATABASE_URL: url })

  t.match(await record(), { code: 2, out: '', err: /give the location of the backup \(--folder <text>\) or its error/ })
  t.same(await sql`SELECT FROM backups`, [], 'nothing that was not made is recorded')

  t.match(await record('--folder', 's3://backups/monday'), { code: 0, out: /recorded +complete[^]*folder +s3:\/\/backups\/monday/ })
  t.match(await record('--error', 'no room'), { code: 0, out: /recorded +failed[^]*error +no room/ })
  t.match(await record('--error', 'a log\n'.repeat(2000)), { code: 0 }, 'a job that failed gives all that it has')
  t.same(await sql`SELECT folder, error FROM backups ORDER BY id`,
    [{ folder: 's3://backups/monday', error: '' }, { folder: '', error: 'no room' }, { folder: '', error: 'a log\n'.repeat(2000).slice(0, 1000) }])
})

t.test('says that ClickHouse was moved elsewhere, although its former folder is there', async (t) => {
  const dataDir = t.testdir({
    clickhouse: {}, 'addresses.json': JSON.stringify({ pid: process.pid, clickhouseUrl: 'http://127.0.0.1:9/millrace', isClickHouseEmbedded: false })
  })
  const lock = await lockDataDir(dataDir)
  t.teardown(async () => { await lock.release() })

  t.match(await runCaptured(['backup', path.join(t.testdirName, 'backup')], { MILLRACE_DATA_DIR: dataDir }),
    { code: 1, out: '', err: /this stack uses an external ClickHouse server/ })
})

t.test('one that fails before it has the lock of backups leaves the folder that another process is writing', async (t) => {
  const root = t.testdir({ 'millrace-20261101T000000Z': { 'credentials.json': '' } })
  const { sql, url } = await createTestPostgres(t)

  const failed = await runCaptured(['backups', 'run'], {
    DATABASE_URL: url, MILLRACE_BACKUP_FOLDER: root, MILLRACE_DATA_DIR: path.join(root, 'missing')
  })

  t.match(failed, { code: 1, err: /no stack runs on the data directory/ })
  t.match(await sql`SELECT error FROM backups`, [{ error: /no stack runs/ }])
  t.same(await readdir(path.join(root, 'millrace-20261101T000000Z')), ['credentials.json'])
})

t.test('a restore refuses servers of your own before it reads the backup, and leaves the data directory alone', async (t) => {
  const dataDir = path.join(t.testdir(), 'data')
  const refused = await runCaptured(['restore', await makeBackup(path.join(t.testdirName, 'backup')).then(path.dirname).then(path.dirname)], {
    MILLRACE_DATA_DIR: dataDir, DATABASE_URL: 'postgres://millrace@127.0.0.1:9/other'
  })

  t.match(refused, { code: 1, out: '', err: /^millrace: NATS_URL, CLICKHOUSE_URL and DATABASE_URL must not be set/ })
  t.same(await readdir(t.testdirName), ['backup'])
})

async function list (root: string, ...options: string[]): Promise<Captured> {
  return await runCaptured(['backups', 'list', ...options], { MILLRACE_BACKUP_FOLDER: root })
}

/** @returns one of its files. */
async function makeBackup (folder: string): Promise<string> {
  const write = async (name: string): ReturnType<typeof writeBackupFile> =>
    await writeBackupFile(folder, name, Readable.from([Buffer.from('twelve bytes')]))
  const files = [await write('credentials.json'), await write('clickhouse/data.bin')]
  await writeFile(path.join(folder, 'manifest.json'), JSON.stringify({
    format: 1, version: '0.1.0', startedAt: '2026-11-01T00:00:00Z', deadLetters: 0, leftOut: [], books: [], files,
    postgres: { migrations: [], checksums: {}, tables: {} },
    clickhouse: { migrations: [], checksums: {}, definitions: [], tables: {} }
  }))
  return path.join(folder, files[1]!.path)
}
