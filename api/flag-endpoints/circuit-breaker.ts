export interface CircuitBreakerOptions {
  /** Failures in a row after which nothing is tried for a moment: a single slow answer is no outage. */
  failures: number
  /** How long nothing is tried then, in milliseconds. */
  pauseMs: number
  /** Longest wait for an answer, in milliseconds. */
  timeoutMs: number
  /** Monotonic or epoch milliseconds. */
  now: () => number
}

/** Runs the work, or returns null at once or after the timeout when it cannot be done now. */
export type CircuitBreaker = <T>(work: () => CancellableWork<T>) => Promise<T | null>

export interface CancellableWork<T> {
  answer: Promise<T>
  /** Called when nobody waits for the answer any more. */
  cancel: () => void
}

/**
 * Guards requests against a dependency that is unavailable: after a few failures it is left alone for a moment, then
 * one request tries it while the others go on without. So an outage costs a request now and then a timeout, not each.
 *
 * @param onFailure  Told of each failure, for logs and metrics.
 */
export function createCircuitBreaker (
  options: CircuitBreakerOptions, onFailure: (error: unknown) => void
): CircuitBreaker {
  let failures = 0
  let tryAgainAt = 0

  return async function guard<T> (work: () => CancellableWork<T>): Promise<T | null> {
    if (failures >= options.failures) {
      if (options.now() < tryAgainAt) return null
      // This request is the probe; until it is back the others go on without.
      tryAgainAt = options.now() + options.timeoutMs + options.pauseMs
    }
    const { answer, cancel } = work()
    try {
      const value = await withTimeout(options.timeoutMs, answer)
      failures = 0
      return value
    } catch (error) {
      cancel()
      failures++
      tryAgainAt = options.now() + options.pauseMs
      onFailure(error)
      return null
    }
  }
}

/**
 * Waits for work, but not indefinitely. The work itself goes on; who can cancel it does.
 *
 * @throws when it took longer than `timeoutMs`; what the work throws passes on.
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
