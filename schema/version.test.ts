import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { describeVersion, readCheckedOut } from './version.ts'

const HASH = 'a1'.repeat(20)

t.test('reads the commit that git has checked out, without git', async (t) => {
  const ref = 'refs/heads/main'
  const cases = {
    branch: { HEAD: `ref: ${ref}\n`, refs: { heads: { main: `${HASH}\n` } } },
    'packed branch': { HEAD: `ref: ${ref}\n`, 'packed-refs': `# pack-refs with: peeled\n${'b2'.repeat(20)} ${ref}-old\n${HASH} ${ref}\n^${'c3'.repeat(20)}\n` },
    'branch with a slash': { HEAD: 'ref: refs/heads/a/b\n', refs: { heads: { a: { b: `${HASH}\n` } } } },
    'detached head': { HEAD: `${HASH}\n` }
  }
  for (const [name, git] of Object.entries(cases)) t.equal(readCheckedOut(t.testdir({ '.git': git })), HASH, name)
  const worktree = t.testdir({
    main: { '.git': { ...cases['packed branch'], worktrees: { other: { HEAD: `ref: ${ref}\n`, commondir: '../..\n' } } } },
    other: { '.git': 'gitdir: ../main/.git/worktrees/other\n' }
  })
  t.equal(readCheckedOut(path.join(worktree, 'other')), HASH, 'worktree')
})

t.test('a commit that is not known is no error', async (t) => {
  const cases = {
    'no clone': {}, 'no commit yet': { '.git': { HEAD: 'ref: refs/heads/main\n' } }, reftable: { '.git': { HEAD: 'ref: refs/heads/.invalid\n', reftable: {} } },
    damaged: { '.git': { HEAD: 'x' } }, 'a file of something else': { '.git': 'nonsense' }
  }
  for (const [name, root] of Object.entries(cases)) t.equal(readCheckedOut(t.testdir(root)), undefined, name)
  t.equal(describeVersion({ version: '1.2.3' }), '1.2.3 (commit unknown)')
  t.equal(describeVersion({ version: '1.2.3', commit: HASH }), '1.2.3 (commit a1a1a1a1a1a1)')
})

t.test('git itself says the same', { skip: hasGit() ? false : 'git is not installed' }, async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-test-git-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const clone = path.join(root, 'clone')
  const git = (cwd: string, ...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  git(root, 'init', clone)
  await writeFile(path.join(clone, 'file'), '')
  git(clone, 'add', '.')
  git(clone, 'commit', '-m', 'first')
  t.equal(readCheckedOut(clone), git(clone, 'rev-parse', 'HEAD'))
  git(clone, 'pack-refs', '--all')
  t.equal(readCheckedOut(clone), git(clone, 'rev-parse', 'HEAD'))
  git(clone, 'worktree', 'add', '-b', 'side/branch', path.join(root, 'tree'))
  git(path.join(root, 'tree'), 'commit', '--allow-empty', '-m', 'second')
  t.equal(readCheckedOut(path.join(root, 'tree')), git(path.join(root, 'tree'), 'rev-parse', 'HEAD'))
})

function hasGit (): boolean {
  try {
    execFileSync('git', ['--version'])
    return true
  } catch {
    return false
  }
}
