import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { readManifest } from '../../cli/backup/backup-folder.ts'
import { runCaptured, type Captured } from '../../cli/testing/run-captured.ts'
import { tryLockFile } from '../../platform/durable-folder.ts'
import type { Status } from '../../platform/status/build-status.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { listBackups, nameBackup, pruneBackups } from './data-dir/backup-folders.ts'
import { readAddresses } from './data-dir/stack-access.ts'
import { nextBackupAt } from './schedule-backups.ts'
import { chooseSettings, makeDataDir, runMain } from './testing/run-main.ts'

t.setTimeout(170_000)

const HOUR = 3_600_000
const at = (text: string): number => Date.parse(`2026-11-${text}Z`)

t.test('a backup is due an interval after the last one, or at its time of day', async (t) => {
  const daily = { intervalMs: 24 * HOUR, timeOfDayMs: null }
  t.equal(nextBackupAt(undefined, daily), 0, 'the first one at once')
  t.equal(nextBackupAt(at('20T10:00'), daily), at('21T10:00'))
  const nightly = { ...daily, timeOfDayMs: 2.5 * HOUR }
  t.equal(nextBackupAt(at('20T10:00'), nightly), at('21T02:30'))
  t.equal(nextBackupAt(at('20T02:30'), nightly), at('21T02:30'))
  t.equal(nextBackupAt(at('20T02:29'), nightly), at('20T02:30'))
  t.equal(nextBackupAt(at('20T10:00'), { intervalMs: 6 * HOUR, timeOfDayMs: 2 * HOUR }), at('20T14:00'))
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
  t.match(await listBackups(root), [{ startedAt: at('18T02:30') }, {}, {}, { startedAt: at('21T02:30'), isComplete: false }])

  await pruneBackups(root, 2)

  t.same((await readdir(root)).sort(), [...kept, 'of somebody else'].sort())
  t.same(await listBackups(path.join(root, 'missing')), [])
})

t.test('a stack makes its backups, whatever became of the one before', async (t) => {
  const dataDir = await makeDataDir(t)
  const root = path.join(t.testdir(), 'backups')
  const settings = { ...await chooseSettings(dataDir), MILLRACE_BACKUP_FOLDER: root, MILLRACE_BACKUP_KEEP: '1' }
  // The first backup is due as soon as the stack is ready: it is under way now, or about to begin.
  const first = runMain(t, settings)
  await first.ready()
  first.child.kill('SIGTERM')
  t.equal(await first.exited, 0, first.output())

  await runMain(t, settings).ready()
  await waitFor(async () => (await listBackups(root)).some(({ isComplete }) => isComplete), { timeoutMs: 60_000 })
  const cli = async (...args: string[]): Promise<Captured> =>
    await runCaptured(args, { PATH: process.env.PATH, MILLRACE_DATA_DIR: dataDir, MILLRACE_BACKUP_FOLDER: root, MILLRACE_BACKUP_KEEP: '1' })
  // The process of the scheduled one may still be removing what it replaces.
  await waitFor(async () => (await listBackups(root)).every(({ isComplete }) => isComplete), { timeoutMs: 30_000 })
  const [made] = await listBackups(root)

  await t.test('one more shares with it, and takes its place', async (t) => {
    const answer = await waitFor(async () => {
      const captured = await cli('backups', 'run', '--json')
      return captured.code === 0 && captured
    }, { timeoutMs: 30_000 })
    t.match(JSON.parse(answer.out), { removed: [made!.folder] })
    const [now, ...more] = await listBackups(root)
    t.same(more, [])
    t.match(JSON.parse((await cli('backups', 'list', '--json')).out), [{ folder: now!.folder, events: 0 }])
  })

  const { pipelineUrl } = await readAddresses(dataDir)
  const readHealth = async (): Promise<{ healthy: boolean, lastError: string | null } | undefined> => {
    const { parts } = await (await fetch(`${pipelineUrl}/_health`)).json() as { parts: { name: string, healthy: boolean, lastError: string | null }[] }
    return parts.find(({ name }) => name === 'backup')
  }
  await waitFor(async () => (await readHealth())?.healthy === true, { timeoutMs: 40_000 })
  const { backup } = JSON.parse((await cli('status', '--json')).out) as Status
  t.match(backup, { intervalSeconds: 86_400, failed: false })
  t.ok(backup.ageSeconds! < 600)

  await t.test('a damaged one is named, and neither hides the others nor keeps the next from being made', async (t) => {
    const [{ folder } = { folder: '' }] = await listBackups(root)
    const manifest = path.join(folder, 'manifest.json')
    const text = await readFile(manifest, 'utf8')
    await cp(folder, path.join(root, nameBackup(at('18T02:30'))), { recursive: true })
    await rm(manifest)
    await writeFile(manifest, text.slice(0, 300))
    t.match(JSON.parse((await cli('backups', 'list', '--json')).out), [{ folder, damage: 'damaged' }, { events: 0 }])

    const answer = await cli('backups', 'run', '--json')

    t.equal(answer.code, 0, answer.err)
    const { base } = await readManifest((JSON.parse(answer.out) as { folder: string }).folder)
    t.equal(base?.folder, path.join(root, nameBackup(at('18T02:30'))), 'it shares with the whole one')
  })

  await t.test('a folder without any of its backups is a disk that is not mounted, until somebody says that it is not', async (t) => {
    await rename(root, `${root}.unmounted`)
    for (const make of [async () => {}, async () => { await mkdir(root) }]) {
      await make()
      const refused = await cli('backups', 'run')
      t.equal(refused.code, 1)
      t.match(refused.err, /no backup any more, .* is its disk mounted\? .*--emptied/)
    }
    t.same(await readdir(root), [], 'nothing was written')

    const { folder: emptied } = JSON.parse((await cli('backups', 'run', '--emptied', '--json')).out) as { folder: string }
    // The folder of a backup is named after its second.
    await waitFor(() => Date.now() % 1000 < 100 && nameBackup(Date.now()) !== path.basename(emptied))
    t.equal((await cli('backups', 'run')).code, 0, 'and once is enough')
    t.equal((await listBackups(root)).length, 1)
  })

  await t.test('one that cannot be completed leaves its folder empty, for the next try', async (t) => {
    const folder = path.join(t.testdir(), 'by hand')
    const spooled = path.join(dataDir, 'spool', 'stuck.segment')
    await writeFile(spooled, 'waits for good')
    const failed = await cli('backup', folder, '--wait', '1')
    t.equal(failed.code, 1)
    t.match(failed.err, /a backup now would miss acknowledged events/)
    t.same(await readdir(folder), [])

    await rm(spooled)
    t.equal((await cli('backup', folder)).code, 0)
  })

  await t.test('of two at once the second is refused, and is no failure', async (t) => {
    const lock = await waitFor(() => tryLockFile(path.join(dataDir, 'backup.lock')))
    const refused = await cli('backups', 'run')
    lock.release()
    t.equal(refused.code, 1)
    t.match(refused.err, /another backup of .* is being made/)
    t.equal((await listBackups(root)).length, 1)
  })

  await t.test('one that fails leaves its reason in health, metrics and status', async (t) => {
    await writeFile(path.join(dataDir, 'a file'), '')
    const failed = await runCaptured(['backups', 'run'], {
      MILLRACE_DATA_DIR: dataDir, MILLRACE_BACKUP_FOLDER: path.join(dataDir, 'a file')
    })
    t.equal(failed.code, 1)
    await waitFor(async () => (await readHealth())?.healthy === false, { timeoutMs: 40_000 })
    t.match(await readHealth(), { lastError: /ENOTDIR|EEXIST/ })
    t.match(await (await fetch(`${pipelineUrl}/metrics`)).text(), /^millrace_pipeline_backup_failures_total 3$/m)
    t.match((await cli('status', '--once')).out, /^backup +failed .*(ENOTDIR|EEXIST)/m)
  })
})
