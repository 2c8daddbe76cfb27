import { HttpError } from '../../../engines/errors.ts'

/** Queries that may run at once through one API process: fewer than ClickHouse lets analysts run. */
const MAX_QUERIES = 6

/** And of these, of one personal key. */
const MAX_QUERIES_PER_KEY = 2

/** Bounds how many queries run at once, so that one analyst does not keep the others waiting. */
export class QuerySlots {
  #byKey = new Map<string, number>()
  #running = 0

  /**
   * Takes a place; it must be given back by calling what is returned, once.
   *
   * @throws {HttpError} 429 when none is free.
   */
  take (keyHash: string): () => void {
    const ofKey = this.#byKey.get(keyHash) ?? 0
    if (ofKey >= MAX_QUERIES_PER_KEY) {
      throw new HttpError(429, 'throttled_error', 'throttled',
        `${MAX_QUERIES_PER_KEY} queries of your key run already; cancel one, or wait until one has ended.`)
    }
    if (this.#running >= MAX_QUERIES) {
      throw new HttpError(429, 'throttled_error', 'throttled', 'As many queries of others run as may; try again in a moment.')
    }
    this.#running++
    this.#byKey.set(keyHash, ofKey + 1)
    return () => {
      this.#running--
      const left = this.#byKey.get(keyHash)! - 1
      if (left === 0) this.#byKey.delete(keyHash)
      else this.#byKey.set(keyHash, left)
    }
  }
}
