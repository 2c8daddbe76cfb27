import { rm, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { refuseLostFiles, verifyBackupFiles, writeBackupFile } from './backup-files.ts'
import { readManifest } from './backup-folder.ts'

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

t.test('a manifest that lacks something is no backup', async (t) => {
  const whole = {
    format: 1, version: '0.1.0', files: [{ path: 'credentials.json', bytes: 2, sha256: 'x' }],
    postgres: { migrations: [], tables: {} }, clickhouse: { migrations: [], tables: {} }
  }
  const read = async (manifest: unknown): Promise<unknown> =>
    await readManifest(t.testdir({ 'manifest.json': JSON.stringify(manifest) }))
  t.match(await read(whole), { version: '0.1.0' })

  const cases = {
    'no object': null, 'that of a web page': { name: 'x', icons: [] }, 'no files': { ...whole, files: [] },
    'a file without its path': { ...whole, files: [{}] }, 'no tables': { ...whole, clickhouse: { migrations: [] } },
    'no migrations': { ...whole, postgres: { tables: {} } }
  }
  for (const [name, manifest] of Object.entries(cases)) {
    await t.rejects(read(manifest), { code: 'MILLRACE_BACKUP_INCOMPLETE', message: /manifest.json is damaged/ }, name)
  }
  await t.rejects(read({ ...whole, format: 2, version: '9.0.0' }), { message: /another version, 9\.0\.0/ })
})

t.test('a folder that is not there, or no folder, is not called a backup that is not complete', async (t) => {
  const folder = t.testdir({ file: '', empty: {} })
  const cases = {
    missing: /^there is no folder .*missing: .*disk mounted/,
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
