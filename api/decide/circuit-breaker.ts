export interface CircuitBreakerOptions {
  /** How long nothing is tried after a failure, in milliseconds. */
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
 * Guards requests against a dependency that is away: after a failure it is left alone for a moment, then one request
 * tries it while the others go on without. So an outage costs a request now and then a timeout, not each of them.
 *
 * @param onFailure  Told of each failure, for logs and metrics.
 */
export function createCircuitBreaker (
  options: CircuitBreakerOptions, onFailure: (error: unknown) => void
): CircuitBreaker {
  let isOpen = false
  let tryAgainAt = 0

  return async function guard<T> (work: () => CancellableWork<T>): Promise<T | null> {
    if (isOpen) {
      if (options.now() < tryAgainAt) return null
      // This request is the probe; until it is back the others go on without.
      tryAgainAt = options.now() + options.timeoutMs + options.pauseMs
    }
    const { answer, cancel } = work()
    try {
      const value = await withTimeout(answer, options.timeoutMs)
      isOpen = false
      return value
    } catch (error) {
      cancel()
      isOpen = true
      tryAgainAt = options.now() + options.pauseMs
      onFailure(error)
      return null
    }
  }
}

async function withTimeout<T> (answer: Promise<T>, timeoutMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
