import { HttpError } from '../../engines/errors.ts'
import { createSemaphore, type Semaphore } from '../../platform/semaphore.ts'

/** Queries that may run at once through one API process: fewer than ClickHouse lets analysts run. */
const MAX_QUERIES = 6

/** And of these, of one personal key. */
const MAX_QUERIES_PER_KEY = 2

/** Bounds how many queries run at once, so that one analyst does not keep the others waiting. */
export class QuerySlots {
  readonly #all = createSemaphore({ limit: MAX_QUERIES })
  readonly #byKey = new Map<string, Semaphore>()

  /**
   * Takes a place; it must be given back by calling what is returned, once.
   *
   * @throws {HttpError} 429 when none is free.
   */
  take (keyHash: string): () => void {
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
