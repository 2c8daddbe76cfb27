import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { createExpiringCache } from './expiring-cache.ts'

const TTL_MS = 30_000

/** Which projects exist, without asking the database for each request. */
export interface ProjectDirectory {
  /** Ids of all projects, ascending. */
  listIds: () => Promise<readonly number[]>
  invalidate: () => void
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
