/**
 * Runs tasks at closed windows: exports, alerts, reports. A window is closed when the watermark has passed its end, by
 * `received_at`: then every acknowledged event of it is stored (decision 0027).
 * An event that comes late has a later `received_at`, and so a later window.
 *
 * Each task has a row in `window_tasks`. The process that holds its lease runs its next window, and commits the
 * effects together with the record that the window is done, if it still holds the lease: effects in Postgres happen
 * once. A process that dies leaves a lease that ends; another one runs the window again. A task that fails is tried
 * again, later and later, and delays no other one. One that is slow leaves its place to others as soon as there is one
 * among the slow ones, and begins there the next time.
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

/** A task that takes longer is slow, in milliseconds. */
const QUICK_MS = 5000

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
  /** A task that takes longer is slow, in milliseconds. Default 5,000. */
  quickMs?: number
  logger: Logger
}

interface Places { list: WindowKind['list'], free: Semaphore, slow: Semaphore }

/** Runs tasks until stopped. Without tasks a round is what it takes to list them. */
export function startWindows (deps: WindowsDeps): Pick<IntervalLoop, 'stop'> {
  const { sql, clickhouse, owner, kinds, runRounds = runAtIntervals, logger } = deps
  const { roundMs = ROUND_MS, leaseMs = LEASE_MS, quickMs = QUICK_MS } = deps
  const stopped = new AbortController()
  const running = new Map<string, Promise<void>>()
  const slowOnes = new Set<string>()
  const places = kinds.map(({ list, limit }): Places =>
    ({ list, free: createSemaphore({ limit }), slow: createSemaphore({ limit: Math.ceil(limit / 2) }) }))
  const leases = createLeases({ sql, owner, leaseMs, signal: stopped.signal })

  /** Does further work, then closed windows one after another. @returns whether there was one, and none failed. */
  async function runTask (listed: WindowTask, through: Date | null, list: WindowKind['list']): Promise<boolean> {
    const { subject } = listed
    let hasRun = false
    try {
      // Listed again before each further window: it may be paused, changed or deleted while many are due.
      for (let task: WindowTask | undefined = listed; task !== undefined;) {
        const { size, since, run, beside } = task
        const window = windowAt(size, await leases.readProgress(subject, windowAt(size, since).from))
        if (beside !== undefined && !await leases.hold(subject, beside)) break
        if (run === undefined || through === null || window.to > through) break
        if (!await leases.hold(subject, async (signal) => await run(window, signal), window.to)) break
        hasRun = true
        if (windowAt(size, window.to).to > through) break
        task = (await list(subject)).find((each) => each.subject === subject)
      }
      return hasRun
    } catch (err) {
      if (!stopped.signal.aborted) logger.warn({ err, subject }, 'could not process a window; retrying')
      return false
    }
  }

  async function startInTurn (task: WindowTask, through: Date | null, { list, free, slow }: Places): Promise<void> {
    const { subject } = task
    const wasSlow = slowOnes.has(subject)
    await (wasSlow ? slow : free).run(async (leave) => {
      const begunAt = performance.now()
      const ended = runTask(task, through, list)
      const timer = setTimeout(() => {
        slowOnes.add(subject)
        if (!wasSlow) void slow.run(async () => { leave(); await ended })
      }, quickMs)
      if (await ended && performance.now() - begunAt < quickMs) slowOnes.delete(subject)
      clearTimeout(timer)
    })
    running.delete(subject)
  }

  /** @returns whether there are any. */
  async function startKind (places: Places): Promise<boolean> {
    const { list } = places
    const listed = await list()
    const tasks = listed.filter(({ subject }) => !running.has(subject))
    if (tasks.length === 0) return listed.length > 0
    const through = await readCompleteThrough(clickhouse)
    for (const task of tasks) running.set(task.subject, startInTurn(task, through, places))
    return true
  }

  const loop = runRounds({
    everyMs: roundMs,
    logger,
    failure: 'tasks of closed windows could not be read; they wait',
    async run () {
      const found = await Promise.all(places.map(startKind))
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
