import { coalesce, runAtIntervals, withTimeout } from '../../../platform/intervals.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { listenPostgres } from '../../../platform/postgres/listen-postgres.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { Metrics } from '../../../platform/metrics.ts'
import { loadDefinitions, loadProjectIds, loadRevisions } from '../management/load-definitions.ts'
import { compileFlagSet, type FlagSet } from '../../../engines/flags/evaluate-flags.ts'
import { createEvaluationCounters } from './compute-flags.ts'

const RETRY_MS = 500

/** Maximum milliseconds of a read; it is abandoned then and repeated. */
const READ_TIMEOUT_MS = 5000

/** Maximum milliseconds that a request for an unknown project waits for a read; SDKs give up after 3 s. */
const MISS_TIMEOUT_MS = 1000

/** Minimum milliseconds between two reads because of unknown projects. */
const MISS_PAUSE_MS = 250

/** Compiled flags of all projects, in memory. While Postgres is unavailable the last ones are served. */
export interface DefinitionCache {
  /** Resolves after the first complete read. Never rejects: it waits until Postgres is available. */
  ready: Promise<void>
  isReady: () => boolean
  /** Age of the cache: milliseconds since the last complete read; null before the first one. */
  ageMs: () => number | null
  /** Whether the flags of a project are known. Reads Postgres again for an unknown project, which may be new. */
  knows: (projectId: number) => Promise<'known' | 'unknown' | 'unavailable'>
  /** The flags of a project; an empty set when it has none. */
  get: (projectId: number) => FlagSet
  /** Reads what has changed. Resolves when it is read or could not be. */
  refresh: () => Promise<void>
  stop: () => Promise<void>
}

export interface DefinitionCacheOptions {
  sql: Sql
  /** For a separate connection, which listens for notifications of changes. */
  databaseUrl: string
  /** Milliseconds between readings without a notification: bounds the effect of a missed one. Default: 15,000. */
  pollMs?: number
  logger: Logger
  metrics: Metrics
}

/** Reads all definitions and keeps them current: every API process sees a change within a second. */
export function createDefinitionCache (options: DefinitionCacheOptions): DefinitionCache {
  const { sql, databaseUrl: url, pollMs = 15_000, logger } = options
  const countersOf = createEvaluationCounters(options.metrics)
  const { promise: ready, resolve } = Promise.withResolvers<undefined>()
  let projects = new Set<number>()
  const sets = new Map<number, { revision: number, set: FlagSet }>()
  let isReady = false
  let readAt = -Infinity
  let retry: NodeJS.Timeout | undefined

  const readAll = async (isAbandoned: () => boolean): Promise<void> => {
    // The time of the request, not of the answer: a project created in between is missing from it.
    const askedAt = performance.now()
    // Before the revisions, which then have the flags of every project that is known.
    const freshProjects = await loadProjectIds(sql)
    const revisions = await loadRevisions(sql)
    for (const [projectId, revision] of revisions) {
      if (sets.get(projectId)?.revision === revision) continue
      const definitions = await loadDefinitions(sql, projectId)
      if (isAbandoned()) return
      if (definitions === null) continue
      const set = compileFlagSet(definitions, countersOf(projectId))
      sets.set(projectId, { revision, set })
      for (const [flag, attr] of set.malformed) logger.warn({ projectId, flag, attr }, 'flag filters are malformed; this flag evaluates as failed')
    }
    for (const projectId of sets.keys()) {
      if (!revisions.has(projectId)) sets.delete(projectId)
    }
    // Last: a known project without its flags would be answered with an empty set.
    projects = freshProjects
    readAt = askedAt
    isReady = true
    resolve(undefined)
  }
  const refresh = coalesce(async () => {
    clearTimeout(retry)
    let isAbandoned = false
    try {
      await withTimeout(READ_TIMEOUT_MS, readAll(() => isAbandoned))
    } catch (err) {
      isAbandoned = true
      logger.warn({ err, retryAfterMs: RETRY_MS }, 'could not read flag definitions; serving the last ones')
      retry = setTimeout(() => { void refresh() }, RETRY_MS).unref()
    }
  })
  /** Reads again for an unknown project, unless that was just done; false when Postgres did not answer. */
  const refreshAfterMiss = async (): Promise<boolean> => {
    if (performance.now() - readAt <= MISS_PAUSE_MS) return true
    const before = readAt
    // readAt tells whether it succeeded in time.
    await withTimeout(MISS_TIMEOUT_MS, refresh()).catch(() => {})
    return readAt !== before
  }
  const onChange = (): void => { void refresh() }
  const listeners = ['millrace_flags', 'millrace_keys'].map((channel) => listenPostgres({ url, channel, logger, onChange }))
  const polling = runAtIntervals({ everyMs: pollMs, firstAfterMs: pollMs, run: refresh })

  return {
    ready,
    isReady: () => isReady,
    ageMs: () => isReady ? Math.round(performance.now() - readAt) : null,
    async knows (projectId) {
      if (!projects.has(projectId) && !await refreshAfterMiss()) return 'unavailable'
      return projects.has(projectId) ? 'known' : 'unknown'
    },
    get: (projectId) => sets.get(projectId)?.set ?? compileFlagSet({ projectId, timezone: 'UTC', flags: [], cohorts: [], groupTypes: new Map() }),
    refresh,
    async stop () {
      clearTimeout(retry)
      await Promise.all([polling, ...listeners].map(async (each) => await each.stop()))
    }
  }
}
