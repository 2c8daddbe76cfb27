export interface ExpiringCacheOptions<V> {
  load: (key: string) => Promise<V>
  /** How long a value is used without asking again; bounds staleness when a notification is missed. */
  ttlMs: number
  /** Entries at most; the oldest go first. */
  maxEntries: number
  now: () => number
  /** Told of each lookup whether it was answered from memory. */
  onLookup?: (outcome: 'hit' | 'miss') => void
}

/** Values by key, loaded on demand. */
export interface ExpiringCache<V> {
  get: (key: string) => Promise<V | undefined>
  /** Values count as old from now on. */
  invalidate: () => void
}

/**
 * Remembers loaded values, and that there is none, for a short while; concurrent misses of one key load once.
 *
 * When loading fails, an old value is served instead, because keys rarely change and a database that is unavailable for
 * a minute must not lock everyone out. Without one the error passes on.
 */
export function createExpiringCache<V> (options: ExpiringCacheOptions<V | undefined>): ExpiringCache<V> {
  const entries = new Map<string, { value: V | undefined, loadedAt: number }>()
  const loading = new Map<string, Promise<V | undefined>>()
  // Tells a load that began before an invalidation from one that began after it.
  let generation = 0

  async function load (key: string): Promise<V | undefined> {
    const begun = generation
    try {
      const value = await options.load(key)
      entries.delete(key)
      entries.set(key, { value, loadedAt: begun === generation ? options.now() : -Infinity })
      const oldest = entries.keys().next().value
      if (entries.size > options.maxEntries && oldest !== undefined) entries.delete(oldest)
      return value
    } catch (error) {
      const old = entries.get(key)?.value
      if (old === undefined) throw error
      return old
    }
  }

  return {
    async get (key) {
      const entry = entries.get(key)
      const isHit = entry !== undefined && options.now() - entry.loadedAt < options.ttlMs
      options.onLookup?.(isHit ? 'hit' : 'miss')
      if (isHit) return entry.value
      const id = `${generation}:${key}`
      let pending = loading.get(id)
      if (pending === undefined) {
        pending = load(key).finally(() => loading.delete(id))
        loading.set(id, pending)
      }
      return await pending
    },
    invalidate () {
      generation++
      for (const entry of entries.values()) entry.loadedAt = -Infinity
    }
  }
}
