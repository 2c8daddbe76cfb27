import path from 'node:path'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import { listBackups } from '../data-dir/backup-folders.ts'
import type { Progress } from './progress.ts'
import { type ManagedProcess, spawnProcess } from './processes/spawn-process.ts'
import type { StackSettings } from './stack-settings.ts'

export interface BackupTimes {
  intervalMs: number
  /** Time of day in UTC at which an interval begins, in milliseconds after midnight; null: after the last backup. */
  timeOfDayMs: number | null
}

/** Interval between checks whether a backup is due, in milliseconds. */
const CHECK_INTERVAL_MS = 20_000

/** After a backup that failed, in milliseconds: a full disk or a stuck pipeline needs its time. */
const RETRY_AFTER_MS = 900_000

/** An ending stack does not wait for a backup: what it leaves is no backup, and goes away with the next. */
const STOP_TIMEOUT_MS = 1000

const ROOT = path.resolve(import.meta.dirname, '..', '..')

/**
 * When the next backup is due, in epoch milliseconds; at once for the first one. One that was missed while nothing
 * ran is due at once, too.
 *
 * @param lastAt  Of the last one. In the future when a clock was wrong: nobody knows then how old it is.
 */
export function nextBackupAt (
  lastAt: number | undefined, { intervalMs, timeOfDayMs, now }: BackupTimes & { now: number }
): number {
  if (lastAt === undefined || lastAt > now) return 0
  if (timeOfDayMs === null) return lastAt + intervalMs
  return timeOfDayMs + intervalMs * (Math.floor((lastAt - timeOfDayMs) / intervalMs) + 1)
}

/**
 * Makes backups at their times, each by a process of its own (`millrace backups run`), one at a time.
 *
 * @param options.onSpawn  Called with each process.
 */
export function scheduleBackups ({ settings, progress, onSpawn }: {
  settings: StackSettings, progress: Progress, onSpawn: (child: ManagedProcess) => void
}): IntervalLoop {
  const { dataDir, backups: { folder, ...times } } = settings
  let running: ManagedProcess | undefined
  let triedAt = -Infinity

  async function runCommand (...args: string[]): ManagedProcess['exited'] {
    running = await spawnProcess({
      name: 'backup',
      command: process.execPath,
      args: [path.join(ROOT, 'cli', `main${path.extname(import.meta.filename)}`), 'backups', ...args],
      env: { ...settings.env, MILLRACE_DATA_DIR: dataDir },
      cwd: ROOT,
      logFile: path.join(dataDir, 'logs', 'backup.log'),
      stopTimeoutMs: STOP_TIMEOUT_MS,
      onSpawn
    })
    const ended = await running.exited
    running = undefined
    return ended
  }

  async function run (): Promise<void> {
    // Of a folder that cannot be read the process says why, and it is recorded.
    const now = Date.now()
    const complete = (await listBackups(folder, now).catch(() => [])).filter(({ isComplete }) => isComplete)
    if (now < nextBackupAt(complete.at(-1)?.startedAt, { ...times, now })) return
    if (performance.now() - triedAt < RETRY_AFTER_MS) return
    triedAt = performance.now()
    const { code, signal, requested } = await runCommand('run')
    if (code === 0) triedAt = -Infinity
    if (code === 0 || requested) return
    progress.print(`  a backup failed; next attempt in ${RETRY_AFTER_MS / 60_000} min: see ${path.join(dataDir, 'logs', 'backup.log')}`)
    // Whatever else it fails with, it records itself.
    if (code === null) await runCommand('record', '--error', `its process was killed by ${signal}`, '--started-at', new Date(now).toISOString())
  }

  const loop = runAtIntervals({
    everyMs: CHECK_INTERVAL_MS,
    run: async () => await run().catch((error: unknown) => { progress.print(`  no backup: ${String(error)}`) })
  })
  return {
    ...loop,
    async stop () {
      const stopped = loop.stop()
      await running?.stop()
      await stopped
    }
  }
}
