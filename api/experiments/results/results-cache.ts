/** A value with the moment it was computed at. */
export interface Refreshed<T> {
  value: T
  lastRefresh: Date
  isCached: boolean
}

export interface ResultsCache<T> {
  /**
   * The value of a key: the remembered one while it is young, else computed now. Who asks while it is being computed
   * waits for the same answer. A failure is not remembered.
   *
   * @param refresh  Compute it in any case.
   */
  get: (key: string, refresh: boolean, compute: () => Promise<T>) => Promise<Refreshed<T>>
}

export interface ResultsCacheOptions {
  ttlMs: number
  /** The oldest go first. */
  maxEntries: number
  now: () => number
}

/** Remembers what is costly to compute, in this process. */
export function createResultsCache<T> ({ ttlMs, maxEntries, now }: ResultsCacheOptions): ResultsCache<T> {
  const entries = new Map<string, { value: T, at: number }>()
  const running = new Map<string, Promise<{ value: T, at: number }>>()

  async function compute (key: string, work: () => Promise<T>): Promise<{ value: T, at: number }> {
    const at = now()
    const entry = { value: await work(), at }
    entries.delete(key)
    entries.set(key, entry)
    const oldest = entries.keys().next().value
    if (entries.size > maxEntries && oldest !== undefined) entries.delete(oldest)
    return entry
  }

  return {
    async get (key, refresh, work) {
      const known = entries.get(key)
      if (!refresh && known !== undefined && now() - known.at < ttlMs) {
        return { value: known.value, lastRefresh: new Date(known.at), isCached: true }
      }
      let pending = running.get(key)
      if (pending === undefined) {
        pending = compute(key, work).finally(() => running.delete(key))
        running.set(key, pending)
      }
      const { value, at } = await pending
      return { value, lastRefresh: new Date(at), isCached: false }
    }
  }
}
