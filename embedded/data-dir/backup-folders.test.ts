import { chmod, chown, mkdir, readdir, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { isRoot } from '../postgres/postgres-cluster.ts'
import { listBackups, nameBackup, pruneBackups, refuseForeignBackups } from './backup-folders.ts'

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

  t.same(pruned, { removed: [old], left: [] })
  const left = [...links, nameBackup(at(2)), ...kept.map((folder) => path.basename(folder))]
  t.same((await readdir(root)).sort(), left.sort())
  t.same(await readdir(moved), ['manifest.json'])
  t.equal(await readlink(path.join(root, links[0]!)), moved)
  t.match((await listBackups(root, NOW)).map(({ isLink, isComplete }) => [isLink, isComplete]),
    [[true, true], [false, true], [false, true], [true, true], [true, false]],
    'a backup behind a link is one that can be restored')
})

t.test('one of somebody else is named, and the others are removed', { skip: isRoot() ? false : 'needs two users' }, async (t) => {
  const folder = t.testdir({ root: {} })
  const { root, make } = makeRoot(folder)
  const [foreign, half, old] = [await make(at(17)), await make(at(18)), await make(at(19))]
  const [locked, kept] = [await make(at(20)), await make(at(21))]
  await rm(path.join(half, 'manifest.json'))
  for (const each of [foreign, half]) await chmod(each, 0o700)
  for (const each of [root, old, kept]) await chown(each, OTHER, OTHER)

  const { found, pruned } = await asOther(async () => ({
    found: await listBackups(root, NOW),
    pruned: await pruneBackups(root, { keep: 1, now: NOW })
  }))

  t.match(found, [
    { isComplete: false, unreadable: `${foreign} cannot be read by the user ${OTHER}, because it belongs to the user 0: as an administrator, run "chown --recursive ${OTHER} ${foreign}"` },
    { isComplete: false, unreadable: /cannot be read/ },
    { isComplete: true, unreadable: undefined }, { isComplete: true }, { isComplete: true }
  ])
  t.same(pruned.removed, [old])
  t.match(pruned.left, [/17T.* cannot be read/, /18T.* cannot be read/, /20T.* cannot be removed .* belongs to the user 0/])
  t.same((await readdir(root)).sort(), [foreign, half, locked, kept].map((each) => path.basename(each)))
})

t.test('a folder is that of one installation, which may move', async (t) => {
  const of = (postgresPassword: string) => ({ 'credentials.json': JSON.stringify({ postgresPassword }) })
  const folder = t.testdir({ root: {}, one: of('a'), copy: of('a'), other: of('b'), 'copy of other': of('b') })
  const [root, one, copy, other] = ['root', 'one', 'copy', 'other'].map((name) => path.join(folder, name)) as [string, string, string, string]
  const ofOne = { code: 'MILLRACE_FOLDER_UNUSABLE', message: `${root} has the backups of the installation in ${one}; the one in` }

  await (await refuseForeignBackups(root, other))
  await (await refuseForeignBackups(root, one))()
  for (const foreign of [other, copy]) {
    await t.rejects(refuseForeignBackups(root, foreign), { ...ofOne, message: new RegExp(`^${RegExp.escape(ofOne.message)} ${RegExp.escape(foreign)} would remove them`) })
  }
  await (await refuseForeignBackups(root, one))()
  await rm(one, { recursive: true })
  await t.rejects(refuseForeignBackups(root, other), { code: 'MILLRACE_FOLDER_UNUSABLE' }, 'as in another container')
  await (await refuseForeignBackups(root, copy))()
  await t.rejects(refuseForeignBackups(root, other), { message: new RegExp(RegExp.escape(copy)) })
})

/** Any user but root. */
const OTHER = 65_534

async function asOther<T> (work: () => Promise<T>): Promise<T> {
  process.setegid!(OTHER)
  process.seteuid!(OTHER)
  try {
    return await work()
  } finally {
    process.seteuid!(0)
    process.setegid!(0)
  }
}

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
