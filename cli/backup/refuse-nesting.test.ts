import { mkdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { runCaptured } from '../testing/run-captured.ts'
import { refuseNestedBackup } from './backup-folder.ts'

const MANIFEST = JSON.stringify({
  format: 1, version: '0.1.0', files: [{ path: 'credentials.json', bytes: 2, sha256: 'x' }],
  postgres: { migrations: [], tables: {} }, clickhouse: { migrations: [], tables: {} }
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
