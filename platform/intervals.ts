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
