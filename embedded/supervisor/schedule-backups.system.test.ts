import { execFileSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { readManifest } from '../../cli/backup/backup-folder.ts'
import { runCaptured, type Captured } from '../../cli/testing/run-captured.ts'
import { tryLockFile } from '../../platform/durable-folder.ts'
import type { Status } from '../../api/status/status-schema.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { listBackups, nameBackup, pruneBackups, type ScheduledBackup } from '../data-dir/backup-folders.ts'
import { readAddresses } from '../data-dir/stack-access.ts'
import { nextBackupAt } from './schedule-backups.ts'
import { isRoot } from '../postgres/postgres-cluster.ts'
import { chooseSettings, makeDataDir, runMain } from './testing/run-main.ts'

// 75 s on a busy machine; beside other stacks, several times as long.
const HOUR = 3_600_000
const at = (text: string): number => Date.parse(`2026-11-${text}Z`)
/** A name that a wrong clock gives a backup. */
const FUTURE = nameBackup(Date.parse('2086-11-18T02:30Z'))

t.test('a backup is due an interval after the last one, or at its time of day', async (t) => {
  const daily = { intervalMs: 24 * HOUR, timeOfDayMs: null, now: at('22T00:00') }
  t.equal(nextBackupAt(undefined, daily), 0, 'the first one at once')
  t.equal(nextBackupAt(at('20T10:00'), daily), at('21T10:00'))
  const nightly = { ...daily, timeOfDayMs: 2.5 * HOUR }
  t.equal(nextBackupAt(at('20T10:00'), nightly), at('21T02:30'))
  t.equal(nextBackupAt(at('20T02:30'), nightly), at('21T02:30'))
  t.equal(nextBackupAt(at('20T02:29'), nightly), at('20T02:30'))
  t.equal(nextBackupAt(at('20T10:00'), { ...daily, intervalMs: 6 * HOUR, timeOfDayMs: 2 * HOUR }), at('20T14:00'))
  t.equal(nextBackupAt(at('23T10:00'), nightly), 0, 'at once when the last one is from the future')
})

t.test('the newest complete backups are kept, and nothing else that looks like one', async (t) => {
  const root = t.testdir({ 'of somebody else': { 'manifest.json': '{}' } })
  const make = async (startedAt: number, isComplete: boolean): Promise<string> => {
    const name = nameBackup(startedAt)
    await mkdir(path.join(root, name))
    if (isComplete) await writeFile(path.join(root, name, 'manifest.json'), '{}')
    return name
  }
  await make(at('18T02:30'), true)
  const kept = [await make(at('19T02:30'), true), await make(at('20T02:30'), true)]
  await make(at('21T02:30'), false)
  const now = at('22T02:30')
  t.match(await listBackups(root, now), [{ startedAt: at('18T02:30') }, {}, {}, { startedAt: at('21T02:30'), isComplete: false }])

  await pruneBackups(root, { keep: 2, now })

  t.same((await readdir(root)).sort(), [...kept, 'of somebody else'].sort())
  t.same(await listBackups(path.join(root, 'missing'), now), [])

  // The clock goes back, and what was made is from the future.
  await make(at('18T02:30'), true)
  const made = path.join(root, kept[1]!)
  t.match((await listBackups(root, at('18T12:00'))).map(({ startedAt }) => startedAt), [at('19T02:30'), at('20T02:30'), at('18T02:30')])
  t.same(await pruneBackups(root, { keep: 2, now: at('18T12:00'), made }), { removed: [path.join(root, kept[0]!)], left: [] }, 'they are the oldest')
  const { removed } = await pruneBackups(root, { keep: 1, now: at('18T12:00'), made })
  t.same(removed, [path.join(root, nameBackup(at('18T02:30')))], 'but for one that was made a moment ago')
})

t.test('a stack makes its backups, whatever became of the one before', async (t) => {
  const dataDir = await makeDataDir(t)
  const root = path.join(t.testdir(), 'backups')
  const settings = { ...await chooseSettings(dataDir), MILLRACE_BACKUP_FOLDER: root, MILLRACE_BACKUP_KEEP: '1' }
  // The first backup is due as soon as the stack is ready, and waits for the spool to drain.
  const spooled = path.join(dataDir, 'spool', 'stuck.segment')
  await mkdir(path.dirname(spooled))
  await writeFile(spooled, 'waits for good')
  const first = runMain(t, settings)
  await first.ready()
  await t.test('one that is killed is a failure, which the status shows', async (t) => {
    const pid = await waitFor(async () => {
      const processes = JSON.parse(await readFile(path.join(dataDir, 'processes.json'), 'utf8')) as { name: string, pid: number }[]
      return processes.find(({ name }) => name === 'backup')?.pid
    })
    process.kill(pid, 'SIGKILL')
    const status = await waitFor(async () => {
      const { out } = await runCaptured(['status', '--once'], { PATH: process.env.PATH, MILLRACE_DATA_DIR: dataDir })
      return out.includes('BACKUP FAILED') && out
    })
    t.match(status, /^last backup +failed +No backup yet\. The last one failed: its process was killed by SIGKILL\.$[^]*STUCK +pipeline: backup/m)
  })
  await rm(spooled)
  first.child.kill('SIGTERM')
  t.equal(await first.exited, 0, first.output())

  await runMain(t, settings).ready()
  const list = async (): Promise<ScheduledBackup[]> => await listBackups(root, Date.now())
  await waitFor(async () => (await list()).some(({ isComplete }) => isComplete))
  const cli = async (...args: string[]): Promise<Captured> =>
    await runCaptured(args, { PATH: process.env.PATH, MILLRACE_DATA_DIR: dataDir, MILLRACE_BACKUP_FOLDER: root, MILLRACE_BACKUP_KEEP: '1' })
  /** The stack makes one of its own as soon as the folder has none, and two at a time are refused. */
  const backUp = async (...options: string[]): Promise<{ folder: string }> => await waitFor(async () => {
    const { code, out, err } = await cli('backups', 'run', ...options, '--json')
    if (code !== 0) throw new Error(err)
    return JSON.parse(out) as { folder: string }
  })
  // The process of the scheduled one may still be removing what it replaces.
  await waitFor(async () => (await list()).every(({ isComplete }) => isComplete))
  const [made] = await list()

  await t.test('one more shares with it, and takes its place', async (t) => {
    // The folder of a backup is named after its second, and a second one in it would be a failure that is recorded.
    await waitFor(() => nameBackup(Date.now()) !== path.basename(made!.folder))
    t.match(await backUp(), { removed: [made!.folder] })
    const [now, ...more] = await list()
    t.same(more, [])
    t.match(JSON.parse((await cli('backups', 'list', '--json')).out), [{ folder: now!.folder, events: 0 }])
  })

  const { pipelineUrl } = await readAddresses(dataDir)
  const readHealth = async (): Promise<{ healthy: boolean, lastError: string | null } | undefined> => {
    const { parts } = await (await fetch(`${pipelineUrl}/_health`)).json() as { parts: { name: string, healthy: boolean, lastError: string | null }[] }
    return parts.find(({ name }) => name === 'backup')
  }
  await waitFor(async () => (await readHealth())?.healthy === true)
  const { backup } = JSON.parse((await cli('status', '--json')).out) as Status
  t.match(backup, { intervalSeconds: 86_400, failed: false })
  t.ok(backup.ageSeconds! < 600)

  await t.test('a damaged one is named, and neither hides the others nor keeps the next from being made', async (t) => {
    const [{ folder } = { folder: '' }] = await list()
    const manifest = path.join(folder, 'manifest.json')
    const text = await readFile(manifest, 'utf8')
    await cp(folder, path.join(root, nameBackup(at('18T02:30'))), { recursive: true })
    await rm(manifest)
    await writeFile(manifest, text.slice(0, 300))
    t.match(JSON.parse((await cli('backups', 'list', '--json')).out), [{ folder, damage: 'damaged' }, { events: 0 }])

    const { base } = await readManifest((await backUp()).folder)
    t.equal(base?.folder, path.join(root, nameBackup(at('18T02:30'))), 'it shares with the whole one')
  })

  await t.test('one that a wrong clock dates into the future takes no place from those that are made', async (t) => {
    for (const { folder } of await list()) await rename(folder, path.join(root, FUTURE))

    const { folder } = await backUp()

    t.match(await list(), [{ folder }], 'what was just made stays, and is the last one')
  })

  await t.test('a folder without any of its backups is a disk that is not mounted, until somebody says that it is not', async (t) => {
    await rename(root, `${root}.unmounted`)
    for (const make of [async () => {}, async () => { await mkdir(root) }]) {
      await make()
      // The stack finds the same as soon as it looks, and two at a time are refused before that.
      const refused = await waitFor(async () => {
        const answer = await cli('backups', 'run')
        return !answer.err.includes('is running') && answer
      })
      t.equal(refused.code, 1, refused.err)
      t.match(refused.err, /no longer has any backup, .* is its disk mounted\? .*--emptied/)
    }
    t.same(await readdir(root), [], 'nothing was written')

    const { folder: emptied } = await backUp('--emptied')
    // The folder of a backup is named after its second.
    await waitFor(() => Date.now() % 1000 < 100 && nameBackup(Date.now()) !== path.basename(emptied))
    t.not((await backUp()).folder, emptied, 'and once is enough')
    t.equal((await list()).length, 1)
  })

  await t.test('one that cannot be completed leaves nothing, for the next try', async (t) => {
    const folder = path.join(t.testdir(), 'by hand')
    const spooled = path.join(dataDir, 'spool', 'stuck.segment')
    await writeFile(spooled, 'waits for good')
    const failed = await cli('backup', folder, '--wait', '1')
    t.equal(failed.code, 1, failed.err)
    t.match(failed.err, /a backup now would miss acknowledged events/)
    await t.rejects(readdir(folder), { code: 'ENOENT' })
    await mkdir(folder)
    t.match(await cli('backup', folder, '--wait', '1'), { code: 1, err: String })
    t.same(await readdir(folder), [], 'a folder that was there stays')

    await rm(spooled)
    t.match(await cli('backup', folder), { code: 0, err: String })
  })

  await t.test('one whose disk becomes read-only says so', { skip: isRoot() ? false : 'only root can mount' }, async (t) => {
    const disk = await mkdtemp(path.join(tmpdir(), 'millrace-test-read-only-'))
    execFileSync('mount', ['-t', 'tmpfs', 'millrace-test', disk])
    t.teardown(async () => {
      execFileSync('umount', ['--lazy', disk])
      await rmdir(disk)
    })
    const folder = path.join(disk, 'backup')
    const spooled = path.join(dataDir, 'spool', 'stuck.segment')
    await writeFile(spooled, 'waits until the disk is read-only')

    const failed = cli('backup', folder)
    await waitFor(async () => (await readdir(folder)).length > 0)
    // The system refuses while a file is open for writing.
    await waitFor(() => execFileSync('mount', ['-o', 'remount,ro', disk]))
    await rm(spooled)

    t.match(await failed, { code: 1, err: /backup could no longer be written to during the backup \(EROFS\): is its disk still mounted, and writable\?/ })
  })

  await t.test('of two at once the second is refused, and is no failure', async (t) => {
    const lock = await waitFor(() => tryLockFile(path.join(dataDir, 'backup.lock')))
    const refused = await cli('backups', 'run')
    lock.release()
    t.equal(refused.code, 1, refused.err)
    t.match(refused.err, /another backup of .* is running/)
    t.equal((await list()).length, 1)
  })

  await t.test('one that fails leaves its reason in health, metrics and status', async (t) => {
    await writeFile(path.join(dataDir, 'a file'), '')
    const failed = await runCaptured(['backups', 'run'], {
      MILLRACE_DATA_DIR: dataDir, MILLRACE_BACKUP_FOLDER: path.join(dataDir, 'a file')
    })
    t.equal(failed.code, 1, failed.err)
    // Health may briefly show an earlier failure.
    await waitFor(async () => (await readHealth())?.lastError?.includes('a file is a file, not a folder: set MILLRACE_BACKUP_FOLDER'))
    t.match(await readHealth(), { healthy: false })
    t.match(await (await fetch(`${pipelineUrl}/metrics`)).text(), /^millrace_pipeline_backup_failures [3-9]$/m)
    t.match((await cli('status', '--once')).out, /^last backup +failed .* is a file, not a folder/m)
  })
})
