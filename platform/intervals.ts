/** First and longest pause between tries, in milliseconds. Long enough to let an overloaded server breathe. */
const FIRST_MS = 200
const LONGEST_MS = 10_000

/**
 * The pause after the given failed try (from 0): doubling, with jitter over its upper half, so that partitions which
 * failed together do not come back together.
 */
export function retryDelayMs (attempt: number, random: () => number = Math.random): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 16))
  return Math.round(full * (0.5 + random() / 2))
}

/** Waits; ends early, without an error, when the signal fires. */
export async function pause (ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
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
