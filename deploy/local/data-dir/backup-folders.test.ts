import { mkdir, readdir, readlink, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { listBackups, nameBackup, pruneBackups } from './backup-folders.ts'

const at = (day: number): number => Date.UTC(2026, 10, day, 2, 30)
const NOW = at(30)

t.test('a symbolic link is neither removed nor followed nor counted', async (t) => {
  const { root, make } = makeRoot(t.testdir({ root: {}, elsewhere: {} }))
  const moved = path.join(root, '..', 'elsewhere')
  await writeFile(path.join(moved, 'manifest.json'), '{}')
  const links = [nameBackup(at(1)), nameBackup(at(22)), nameBackup(at(23))]
  await symlink(moved, path.join(root, links[0]!))
  await symlink(moved, path.join(root, links[1]!))
  await symlink(path.join(root, 'of a disk that is not mounted'), path.join(root, links[2]!))
  const old = await make(at(18))
  const kept = [await make(at(19)), await make(at(20))]
  await writeFile(path.join(root, nameBackup(at(2))), 'a file')

  const pruned = await pruneBackups(root, { keep: 2, now: NOW })

  t.same(pruned, [old])
  const left = [...links, nameBackup(at(2)), ...kept.map((folder) => path.basename(folder))]
  t.same((await readdir(root)).sort(), left.sort())
  t.same(await readdir(moved), ['manifest.json'])
  t.equal(await readlink(path.join(root, links[0]!)), moved)
  t.match((await listBackups(root, NOW)).map(({ isLink, isComplete }) => [isLink, isComplete]),
    [[true, true], [false, true], [false, true], [true, true], [true, false]],
    'a backup behind a link is one that can be restored')
})

function makeRoot (folder: string): { root: string, make: (startedAt: number) => Promise<string> } {
  const root = path.join(folder, 'root')
  return {
    root,
    async make (startedAt) {
      const backup = path.join(root, nameBackup(startedAt))
      await mkdir(backup)
      await writeFile(path.join(backup, 'manifest.json'), '{}')
      return backup
    }
  }
}
