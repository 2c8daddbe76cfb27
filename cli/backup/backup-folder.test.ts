import { rm, truncate } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { refuseLostFiles, writeBackupFile } from './backup-folder.ts'

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
