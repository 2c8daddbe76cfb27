import type { Logger } from './logger.ts'

/** Waiting: between tries of work that failed, and between runs of work that is done at intervals. */

export interface IntervalOptions {
  /** Pause from the end of a run to the begin of the next, in milliseconds, or what says it then; 5 % more or less. */
  everyMs: number | (() => number)
  /** Pause before the first run; default none. */
  firstAfterMs?: number
  /** Does the work once. Its signal fires when it should end early. What it throws is logged, and it is run again. */
  run: (signal: AbortSignal) => unknown
  /** Gets a warning for each failure, with `failure` as the message. Absent: `run` handles its errors itself. */
  logger?: Pick<Logger, 'warn'>
  failure?: string
  /** How long `stop` waits for a run, in milliseconds. Default a second, for runs that can be repeated. */
  stopWithinMs?: number
}

export type IntervalLoop = ReturnType<typeof runAtIntervals>

/** First and longest pause between tries, in milliseconds. Long enough to let an overloaded server breathe. */
const FIRST_MS = 200
const LONGEST_MS = 10_000

/** Processes that start together do not ask the stores together for long. */
const JITTER = 0.05

/**
 * The one loop for work at intervals: at once (or `firstAfterMs` later), then again and again until stopped. Never two
 * runs at a time; after failures the pause is at least `retryDelayMs`. Does not keep the process alive.
 */
export function runAtIntervals (options: IntervalOptions) {
  const { everyMs, firstAfterMs = 0, run, logger, failure = 'a periodic task failed', stopWithinMs = 1000 } = options
  const stopped = new AbortController()
  const { signal } = stopped
  /** When the last run began, and when the next one was asked for, by the monotonic clock. */
  let [begunAt, askedAt] = [-Infinity, Infinity]
  /** The pause that may be cut short. */
  let pausing: { until: number, woken: AbortController } | null = null

  async function rest (ms: number): Promise<void> {
    for (let leftMs = Math.min(ms, Math.max(0, askedAt - performance.now())); !signal.aborted;) {
      const woken = new AbortController()
      const wake = (): void => woken.abort()
      signal.addEventListener('abort', wake)
      pausing = { until: performance.now() + leftMs, woken }
      await pause(leftMs, woken.signal, { ref: false })
      pausing = null
      signal.removeEventListener('abort', wake)
      leftMs = askedAt - performance.now()
      if (!woken.signal.aborted || leftMs <= 0) return
    }
  }

  async function loop (): Promise<void> {
    if (firstAfterMs > 0) await pause(jitter(firstAfterMs), signal, { ref: false })
    for (let failures = 0; !signal.aborted;) {
      [begunAt, askedAt] = [performance.now(), Infinity]
      try {
        await run(signal)
        failures = 0
      } catch (err) {
        if (!signal.aborted) logger?.warn({ err, failures: failures + 1 }, failure)
        failures++
      }
      const atLeastMs = failures === 0 ? 0 : retryDelayMs(failures - 1)
      const ms = Math.max(jitter(typeof everyMs === 'number' ? everyMs : everyMs()), atLeastMs)
      if (failures === 0) await rest(ms)
      else await pause(ms, signal, { ref: false })
    }
  }

  const ended = loop()
  return {
    /** Cuts the pause short: the next run begins so long after the last began, in ms. Not after a failure. */
    soon (ms: number): void {
      askedAt = Math.min(askedAt, begunAt + ms)
      if (pausing !== null && askedAt < pausing.until) pausing.woken.abort()
    },
    /** Begins no further run. Resolves when the running one has ended, or after `stopWithinMs`. */
    async stop (): Promise<void> {
      stopped.abort()
      if (stopWithinMs === Infinity) return await ended
      const late = new AbortController()
      await Promise.race([ended, pause(stopWithinMs, late.signal)])
      late.abort()
    }
  }
}

/**
 * The pause after the given failed try (from 0): doubling, with jitter over its upper half, so that partitions which
 * failed together do not come back together.
 */
export function retryDelayMs (attempt: number, random: () => number = Math.random): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 16))
  return Math.round(full * (0.5 + random() / 2))
}

/**
 * Waits; ends early, without an error, when the signal fires.
 *
 * @param options.ref  False: the wait does not keep the process alive.
 */
export async function pause (ms: number, signal: AbortSignal, { ref = true } = {}): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    if (!ref) timer.unref()
    signal.addEventListener('abort', done)
  })
}

/**
 * Waits for work up to a timeout. The work itself goes on; a caller that can cancel it should.
 *
 * @throws after `timeoutMs`, and whatever the work throws.
 */
export async function withTimeout<T> (timeoutMs: number, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Runs the work one at a time; calls during a run share one further run, which begins after them. */
export function coalesce (work: () => Promise<void>): () => Promise<void> {
  let last = Promise.resolve()
  let waiting: Promise<void> | null = null
  return async () => {
    if (waiting === null) {
      waiting = last.then(async () => {
        waiting = null
        await work()
      })
      last = waiting
    }
    await waiting
  }
}

function jitter (ms: number): number {
  return ms * (1 - JITTER + 2 * JITTER * Math.random())
}
