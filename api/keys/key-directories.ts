import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { createExpiringCache } from './expiring-cache.ts'
import { hashPersonalKey } from '../../platform/keys/key-text.ts'
import { findPersonalKey, type PersonalKey } from './personal-keys.ts'

/** The personal keys of this installation, in memory for a while. */
export interface PersonalKeyDirectory {
  /** The stored key with this text, also when it is expired or revoked. */
  find: (key: string) => Promise<PersonalKey | undefined>
  /** Records that the key is in use. Never waits and never fails: no answer depends on it. */
  recordUse: (key: PersonalKey) => void
  invalidate: () => void
}

/** Which projects exist, in memory for a while. */
export interface ProjectDirectory {
  /** Ids of all projects, ascending. */
  listIds: () => Promise<readonly number[]>
  invalidate: () => void
}

/** Changes arrive by NOTIFY at once; this bounds what a missed notification and a passed expiry can do. */
const TTL_MS = 30_000

/** `last_used_at` is for people who clean up: an hour is exact enough, and keeps requests free of writes. */
const LAST_USED_RESOLUTION_MS = 3_600_000

export function createPersonalKeyDirectory (
  deps: { sql: Sql, now: () => number, onLookup?: (outcome: 'hit' | 'miss') => void }
): PersonalKeyDirectory {
  // By hash, so that no list of usable keys lies in memory.
  const cache = createExpiringCache<PersonalKey>({
    load: async (secureValue) => await findPersonalKey(deps.sql, secureValue),
    ttlMs: TTL_MS,
    maxEntries: 10_000,
    now: deps.now,
    ...(deps.onLookup === undefined ? {} : { onLookup: deps.onLookup })
  })
  return {
    find: async (key) => await cache.get(hashPersonalKey(key)),
    recordUse (key) {
      const now = deps.now()
      if (key.lastUsedAt !== null && now - key.lastUsedAt.getTime() < LAST_USED_RESOLUTION_MS) return
      key.lastUsedAt = new Date(now)
      // Safe to ignore: the next use after the cache forgot the key tries again.
      deps.sql`UPDATE personal_api_keys SET last_used_at = ${key.lastUsedAt} WHERE id = ${key.id}`.catch(() => {})
    },
    invalidate: () => cache.invalidate()
  }
}

export function createProjectDirectory (
  deps: { sql: Sql, now: () => number, onLookup?: (outcome: 'hit' | 'miss') => void }
): ProjectDirectory {
  const cache = createExpiringCache<number[]>({
    load: async () => (await deps.sql<{ id: number }[]>`SELECT id FROM projects ORDER BY id`).map(({ id }) => id),
    ttlMs: TTL_MS,
    maxEntries: 1,
    now: deps.now,
    ...(deps.onLookup === undefined ? {} : { onLookup: deps.onLookup })
  })
  return {
    listIds: async () => await cache.get('all') ?? [],
    invalidate: () => cache.invalidate()
  }
}
