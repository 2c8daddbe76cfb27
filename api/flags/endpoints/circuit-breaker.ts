import { withTimeout } from '../../../platform/intervals.ts'

export interface CircuitBreakerOptions {
  /** Failures in a row that open the circuit: a single slow answer is not an outage. */
  failures: number
  /** How long the circuit stays open, in milliseconds. */
  pauseMs: number
  /** Maximum wait for an answer, in milliseconds. */
  timeoutMs: number
  /** Monotonic or epoch milliseconds. */
  now: () => number
}

/** Runs the work. Resolves to null when it fails or times out, and at once while the circuit is open. */
export type CircuitBreaker = <T>(work: () => CancellableWork<T>) => Promise<T | null>

export interface CancellableWork<T> {
  answer: Promise<T>
  /** Called after a failure or timeout: the answer is not needed any more. */
  cancel: () => void
}

/**
 * Protects requests from a dependency that is unavailable: after a few failures in a row the circuit opens, and
 * requests go on without it. After a pause one request probes it while the others still go on without. So an outage
 * costs one request in a while the timeout, instead of every request.
 *
 * @param onFailure  Called with each failure, for logs and metrics.
 */
export function createCircuitBreaker (
  options: CircuitBreakerOptions, onFailure: (error: unknown) => void
): CircuitBreaker {
  let failures = 0
  let tryAgainAt = 0

  return async function guard<T> (work: () => CancellableWork<T>): Promise<T | null> {
    if (failures >= options.failures) {
      if (options.now() < tryAgainAt) return null
      // This request is the probe; until it has an answer the others go on without.
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
