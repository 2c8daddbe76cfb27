import { HttpError } from '../../engines/errors.ts'
import { createSemaphore, type Semaphore } from '../../platform/semaphore.ts'
import { QueryFailedError, tookTooLong } from './query-failure.ts'

/** Queries that may run at once through one API process: fewer than ClickHouse lets analysts run. */
const MAX_QUERIES = 6

/** And of these, of one personal key. */
const MAX_QUERIES_PER_KEY = 2

/** A query that ends with its time, its client, or the process. */
export interface RunningQuery {
  signal: AbortSignal
  cancel: () => void
  /** Gives its place back; to be called once. */
  end: () => void
}

/** The queries of one API process. Bounds how many run at once, so that one analyst does not block the others. */
export class RunningQueries {
  readonly #all = createSemaphore({ limit: MAX_QUERIES })
  readonly #byKey = new Map<string, Semaphore>()
  readonly #running = new Set<AbortController>()

  /**
   * Takes a place for a query.
   *
   * @param seconds  After so long it is cancelled, with a `QueryFailedError` as the reason.
   * @throws {HttpError} 429 when no place is free.
   */
  begin (keyHash: string, seconds: number): RunningQuery {
    const release = this.#takePlace(keyHash)
    const stop = new AbortController()
    const timer = setTimeout(() => stop.abort(new QueryFailedError(tookTooLong(seconds))), seconds * 1000)
    this.#running.add(stop)
    return {
      signal: stop.signal,
      cancel: () => stop.abort(),
      end: () => {
        clearTimeout(timer)
        this.#running.delete(stop)
        release()
      }
    }
  }

  cancelAll (): void {
    for (const query of this.#running) query.abort()
  }

  #takePlace (keyHash: string): () => void {
    const own = this.#byKey.get(keyHash) ?? createSemaphore({ limit: MAX_QUERIES_PER_KEY })
    const releaseOwn = own.tryAcquire()
    if (releaseOwn === null) {
      throw new HttpError(429, 'throttled_error', 'throttled',
        `${MAX_QUERIES_PER_KEY} queries of your key run already; cancel one, or wait until one has ended.`)
    }
    const releaseShared = this.#all.tryAcquire()
    if (releaseShared === null) {
      releaseOwn()
      throw new HttpError(429, 'throttled_error', 'throttled', 'As many queries of others run as may; try again in a moment.')
    }
    this.#byKey.set(keyHash, own)
    return () => {
      releaseShared()
      releaseOwn()
      if (own.isIdle) this.#byKey.delete(keyHash)
    }
  }
}
