import { HttpError } from '../../engines/errors.ts'
import type { Metrics } from '../../platform/metrics.ts'

/** Bounds how many events a project may send, so that one client cannot take the time of all others. */
export interface RateLimit {
  /** @throws {HttpError} 429 `throttled` with `Retry-After` when the project has spent more than it may. */
  check (projectId: number): void
  /** Counts events of a request that was let in. */
  spend (projectId: number, events: number): void
}

/** A project that was silent may send this many seconds' worth of events at once. */
const BURST_SECONDS = 10

interface Bucket {
  /** Events that may still come; below 0 after a large batch, and then nothing is taken until it is refilled. */
  left: number
  filledAt: number
}

/**
 * A token bucket by project, in each process for itself. A request is judged by what came before it, never by its own
 * size, so that no batch is too large ever to be taken.
 *
 * @param eventsPerSecond  0: no limit, and no work.
 * @param now  Epoch milliseconds.
 */
export function createRateLimit (
  eventsPerSecond: number, { metrics, now }: { metrics: Metrics, now: () => number }
): RateLimit {
  const buckets = new Map<number, Bucket>()
  let throttled = 0
  metrics.counterFrom('throttled_requests_total', 'Requests answered with 429 because their project exceeded MILLRACE_INGEST_RATE_LIMIT.', () => throttled)
  if (eventsPerSecond === 0) return { check () {}, spend () {} }
  const full = eventsPerSecond * BURST_SECONDS

  function fill (projectId: number): Bucket {
    const at = now()
    let bucket = buckets.get(projectId)
    if (bucket === undefined) buckets.set(projectId, bucket = { left: full, filledAt: at })
    // A clock that was set back fills nothing.
    const added = Math.max(0, at - bucket.filledAt) / 1000 * eventsPerSecond
    bucket.left = Math.min(full, bucket.left + added)
    bucket.filledAt = at
    return bucket
  }

  return {
    check (projectId) {
      const { left } = fill(projectId)
      if (left > 0) return
      throttled++
      const retryAfterSeconds = Math.max(1, Math.ceil(-left / eventsPerSecond))
      throw new HttpError(429, 'throttled_error', 'throttled',
        `The project exceeded its limit of events per second. Expected available in ${retryAfterSeconds} seconds.`,
        { details: { retryAfterSeconds, projectId } })
    },
    spend (projectId, events) {
      fill(projectId).left -= events
    }
  }
}
