import { mkdir, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { type BackupFile, writeBackupFile } from './backup-files.ts'
import { type BaseBackup, hasPart, linkFromBase } from './base-backup.ts'

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

t.test('what is damaged or missing in the earlier backup is copied again', async (t) => {
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
