/**
 * Runs tasks at closed windows: exports, alerts, reports. A window is closed when the watermark has passed its end, by
 * `received_at`: then every acknowledged event of it is stored (decision 0027).
 * An event that comes late has a later `received_at`, and so a later window.
 *
 * Each task has a row in `window_tasks`. The process that holds its lease runs its next window, and commits the
 * effects together with the record that the window is done, if it still holds the lease: effects in Postgres happen
 * once. A process that dies leaves a lease that ends; another one runs the window again. A task that fails is tried
 * again, later and later, and delays no other one.
 */
import { type ClickHouse, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createSemaphore, type Semaphore } from '../../platform/semaphore.ts'
import type { RunAnnounced } from '../announced-work.ts'
import { createLeases } from './window-lease.ts'
import { windowAt, type WindowKind, type WindowTask } from './window-task.ts'

/** Interval of looking for tasks and closed windows, in milliseconds. */
const ROUND_MS = 5000
const LEASE_MS = 30_000

export interface WindowsDeps {
  sql: Sql
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  /** Names this process; new with each start. */
  owner: string
  kinds: readonly WindowKind[]
  /** Default: lists tasks every time. */
  runRounds?: RunAnnounced
  /** Interval of looking for tasks and closed windows, in milliseconds. Default 5,000. */
  roundMs?: number
  /** How long a task waits for a process that died, in milliseconds. Default 30,000. */
  leaseMs?: number
  logger: Logger
}

/** Runs tasks until stopped. Without tasks a round is what it takes to list them. */
export function startWindows (deps: WindowsDeps): Pick<IntervalLoop, 'stop'> {
  const { sql, clickhouse, owner, kinds, runRounds = runAtIntervals, logger } = deps
  const { roundMs = ROUND_MS, leaseMs = LEASE_MS } = deps
  const stopped = new AbortController()
  const running = new Map<string, Promise<void>>()
  const places = kinds.map(({ list, limit }) => ({ list, free: createSemaphore({ limit }) }))
  const leases = createLeases({ sql, owner, leaseMs, signal: stopped.signal })

  /** Its further work, then its closed windows one after another. */
  async function runTask (task: WindowTask, through: Date | null): Promise<void> {
    const { subject, size, since, run, beside } = task
    const first = windowAt(size, since).from
    let done = await leases.readProgress(subject, first)
    let goesOn = beside === undefined || await leases.hold(subject, beside)
    if (run === undefined) return
    while (goesOn) {
      const window = windowAt(size, done)
      if (through === null || window.to > through) return
      goesOn = await leases.hold(subject, async (signal) => await run(window, signal), window.to)
      done = window.to
    }
  }

  async function start (task: WindowTask, through: Date | null): Promise<void> {
    try {
      await runTask(task, through)
    } catch (err) {
      if (!stopped.signal.aborted) logger.warn({ err, subject: task.subject }, 'could not process a window; retrying')
    } finally {
      running.delete(task.subject)
    }
  }

  /** @returns whether there are any. */
  async function startKind (list: WindowKind['list'], places: Semaphore): Promise<boolean> {
    const listed = await list()
    const tasks = listed.filter(({ subject }) => !running.has(subject))
    if (tasks.length === 0) return listed.length > 0
    const through = await readCompleteThrough(clickhouse)
    for (const task of tasks) running.set(task.subject, places.run(async () => await start(task, through)))
    return true
  }

  const loop = runRounds({
    everyMs: roundMs,
    logger,
    failure: 'tasks of closed windows could not be read; they wait',
    async run () {
      const found = await Promise.all(places.map(async ({ list, free }) => await startKind(list, free)))
      return found.includes(true)
    }
  })
  return {
    async stop () {
      stopped.abort(new Error('the process is stopping'))
      await loop.stop()
      await Promise.all(running.values())
    }
  }
}
