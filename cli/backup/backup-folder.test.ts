import { mkdir, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { appendErasures } from '../../api/persons/erasure-file.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { runCaptured } from '../testing/run-captured.ts'
import { type BackupFile, refuseLostFiles, verifyBackupFiles, writeBackupFile } from './backup-files.ts'
import { type BaseBackup, hasPart, linkFromBase, readManifest, refuseNestedBackup } from './backup-folder.ts'

t.test('a backup is not completed when a file that it wrote is gone or shorter', async (t) => {
  const folder = path.join(t.testdir(), 'backup')
  const write = async (name: string): Promise<Awaited<ReturnType<typeof writeBackupFile>>> =>
    await writeBackupFile(folder, name, Readable.from([Buffer.from('twelve bytes')]))
  const files = [await write('postgres/persons.zst'), await write('clickhouse/events/data.bin')]
  await t.resolves(refuseLostFiles(folder, files))

  await truncate(path.join(folder, 'clickhouse/events/data.bin'), 3)
  await t.rejects(refuseLostFiles(folder, files), { code: 'MILLRACE_FOLDER_UNUSABLE', message: /^clickhouse\/events\/data.bin .*disk/ })

  await rm(folder, { recursive: true })
  await t.rejects(refuseLostFiles(folder, files), { code: 'MILLRACE_FOLDER_UNUSABLE', message: /^postgres\/persons.zst / })
})

t.test('names the file of erasures that cannot be written beside a backup, and what to do', async (t) => {
  const rows = [{ project_id: 1, salt: 'a', hashes: ['b'], requested_at: new Date(0) }]
  const sql = (async () => rows) as unknown as Sql

  await t.rejects(appendErasures(sql, path.join(t.testdir(), 'missing')), {
    code: 'MILLRACE_FOLDER_UNUSABLE', message: /missing\/erasures\.jsonl.* cannot be written \(ENOENT\): make the backup in a folder below one/
  })
  await t.resolves(appendErasures((async () => []) as unknown as Sql, '/missing'))
})

t.test('a manifest that lacks something is no backup', async (t) => {
  const whole = {
    format: 1, version: '0.1.0', leftOut: [], books: [], files: [{ path: 'credentials.json', bytes: 2, sha256: 'x' }],
    postgres: { migrations: [], checksums: {}, tables: {} },
    clickhouse: { migrations: [], checksums: {}, definitions: [], tables: {} }
  }
  const read = async (manifest: unknown): Promise<unknown> =>
    await readManifest(t.testdir({ 'manifest.json': JSON.stringify(manifest) }))
  t.match(await read(whole), { version: '0.1.0' })

  const cases = {
    'no object': null, 'that of a web page': { name: 'x', icons: [] }, 'no files': { ...whole, files: [] },
    'a file without its path': { ...whole, files: [{}] }, 'no tables': { ...whole, clickhouse: { migrations: [] } },
    'no migrations': { ...whole, postgres: { checksums: {}, tables: {} } }, 'no checksums': { ...whole, postgres: { migrations: [], tables: {} } }
  }
  for (const [name, manifest] of Object.entries(cases)) {
    await t.rejects(read(manifest), { code: 'MILLRACE_BACKUP_INCOMPLETE', message: /manifest.json is damaged/ }, name)
  }
  await t.rejects(read({ format: 2, version: '9.0.0' }), { message: /another version, 9\.0\.0/ })
})

t.test('a folder that is not there, or no folder, is not called a backup that is not complete', async (t) => {
  const folder = t.testdir({ file: '', empty: {} })
  const cases = {
    missing: /^folder .*missing does not exist: .*disk mounted/,
    file: /file is a file, not/,
    empty: /empty holds no complete backup/
  }
  for (const [name, message] of Object.entries(cases)) {
    await t.rejects(readManifest(path.join(folder, name)), { message }, name)
  }
})

t.test('a damaged file is named with its backup, and what to do', async (t) => {
  const folder = path.join(t.testdir(), 'monday')
  const file = await writeBackupFile(folder, 'clickhouse/data.bin', Readable.from([Buffer.from('twelve bytes')]))
  await writeFile(path.join(folder, file.path), 'twelve Bytes')
  await t.rejects(verifyBackupFiles(folder, [file], () => {}),
    { code: 'MILLRACE_BACKUP_DAMAGED', message: /backup .*monday is damaged: its file clickhouse\/data\.bin .*checksum.*Use another backup/ })
  await rm(path.join(folder, file.path))
  await t.rejects(verifyBackupFiles(folder, [file], () => {}), { message: /monday is damaged: .* cannot be read \(ENOENT\)/ })
})

const PART = 'clickhouse/events/202611_1_1_0'

t.test('a file that did not change is shared, and stays when the earlier backup is removed', async (t) => {
  const root = t.testdir({ later: {} })
  const { base, data, small } = await makeBase(root)
  const later = path.join(root, 'later')

  t.same(await linkFromBase(base, later, { name: data.path, bytes: data.bytes }), data)

  t.equal((await stat(path.join(later, data.path))).ino, (await stat(path.join(base.folder, data.path))).ino)
  t.equal(await linkFromBase(base, later, { name: small.path, bytes: small.bytes }), undefined, 'a small one is copied')
  t.equal(await linkFromBase(base, later, { name: `${PART}/other.bin`, bytes: 9000 }), undefined)
  t.equal(await linkFromBase(base, later, { name: data.path, bytes: data.bytes + 1 }), undefined)
})

t.test('files damaged or missing in the earlier backup are copied again', async (t) => {
  const root = t.testdir({ later: {} })
  const { base, data } = await makeBase(root)
  await writeFile(path.join(base.folder, data.path), 'cut off')
  t.equal(await linkFromBase(base, path.join(root, 'later'), { name: data.path, bytes: data.bytes }), undefined)
  const gone = { ...base, folder: path.join(root, 'gone') }
  t.equal(await linkFromBase(gone, path.join(root, 'later'), { name: data.path, bytes: data.bytes }), undefined)
})

t.test('a part of the same name with other content is not the same part', async (t) => {
  const { base, checksums } = await makeBase(t.testdir())
  t.equal(hasPart(base, PART, checksums.sha256), true)
  t.equal(hasPart(base, PART, '0'.repeat(64)), false)
  t.equal(hasPart(base, 'clickhouse/events/202611_2_2_0', checksums.sha256), false)
  t.equal(hasPart(undefined, PART, checksums.sha256), false)
})

async function makeBase (
  root: string
): Promise<{ base: BaseBackup, data: BackupFile, small: BackupFile, checksums: BackupFile }> {
  const folder = path.join(root, 'base')
  await mkdir(folder)
  const write = async (name: string, text: string): Promise<BackupFile> =>
    await writeBackupFile(folder, path.join(PART, name), Readable.from([Buffer.from(text)]))
  const data = await write('data.bin', 'x'.repeat(9000))
  const small = await write('count.txt', '7')
  const checksums = await write('checksums.txt', 'checksums format')
  const files = new Map([data, small, checksums].map((file) => [file.path, file]))
  return { base: { folder, files }, data, small, checksums }
}

const MANIFEST = JSON.stringify({
  format: 1, version: '0.1.0', leftOut: [], books: [], files: [{ path: 'credentials.json', bytes: 2, sha256: 'x' }],
  postgres: { migrations: [], checksums: {}, tables: {} },
  clickhouse: { migrations: [], checksums: {}, definitions: [], tables: {} }
})

t.test('a backup is made neither inside the data directory nor inside another backup', async (t) => {
  const root = t.testdir({ data: {}, monday: { 'manifest.json': MANIFEST } })
  const dataDir = path.join(root, 'data')
  await symlink(dataDir, path.join(root, 'link'))
  const refuse = async (folder: string): Promise<void> =>
    await refuseNestedBackup({ dataDir, folder: path.join(root, folder) })

  for (const folder of ['data', 'data/backups/new', 'link/new']) {
    await t.rejects(refuse(folder), { code: 'MILLRACE_FOLDER_UNUSABLE', message: /is inside the data directory .*choose a folder outside/ }, folder)
  }
  await t.rejects(refuse('monday/a/new'), { message: /new is inside the backup .*monday, and would be removed with it/ })
  for (const folder of ['tuesday', 'data-backups/new', 'link-of-data']) await t.resolves(refuse(folder), folder)
})

t.test('a restore goes neither into a backup nor comes from the data directory', async (t) => {
  const root = t.testdir({ monday: { 'manifest.json': MANIFEST }, tuesday: { 'manifest.json': MANIFEST } })
  const restore = async (from: string, MILLRACE_DATA_DIR: string): ReturnType<typeof runCaptured> =>
    await runCaptured(['restore', path.join(root, from)], { MILLRACE_DATA_DIR: path.join(root, MILLRACE_DATA_DIR) })

  for (const from of ['monday', 'tuesday']) {
    t.match(await restore(from, 'monday/data'), { code: 1, err: /monday\/data is inside the backup .*monday: set MILLRACE_DATA_DIR/ })
  }

  // As the rest of a restore that was killed, which the next one removes.
  await mkdir(path.join(root, 'data', 'backup'), { recursive: true })
  await writeFile(path.join(root, 'data', 'restore-unfinished.json'), '{}')
  await writeFile(path.join(root, 'data', 'backup', 'manifest.json'), MANIFEST)
  t.match(await restore('data/backup', 'data'), { code: 1, err: /backup is inside the data directory .*: move one of them/ })
})
