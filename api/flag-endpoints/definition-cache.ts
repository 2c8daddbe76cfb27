import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { listenPostgres } from '../../platform/postgres/listen-postgres.ts'
import { type Logger } from '../../platform/logger.ts'
import { loadDefinitions, loadProjectIds, loadProjectKeys, loadRevisions, type ProjectKey } from '../flag-management/load-definitions.ts'
import { compileFlagSet, type FlagSet } from '../flag-evaluation/evaluate-flags.ts'
import { withTimeout } from './circuit-breaker.ts'
import { type FlagTallies } from './compute-flags.ts'

/** What is looked at again even when nothing was notified, in milliseconds. */
const REFRESH_MS = 15_000

/** Pause before a failed load is tried again, in milliseconds. */
const RETRY_MS = 500

/** A server that does not answer is given up and asked again, in milliseconds. */
const READ_TIMEOUT_MS = 5000

/** Longest wait of a request with an unknown key or project, in milliseconds; flag clients give up after 3 s. */
const LOOK_TIMEOUT_MS = 1000

/** Unknown keys and projects lead to a look into Postgres at most this often, in milliseconds. */
const LOOK_PAUSE_MS = 250

/**
 * Keys, existing projects and compiled flags, in memory. While Postgres is unavailable the last known ones are served.
 */
export interface DefinitionCache {
  /** Resolves when everything was loaded once. Never rejects: an absent server is waited for. */
  ready: Promise<void>
  isReady: () => boolean
  /** Since everything was last known to be current, in milliseconds; null before the first time. */
  ageMs: () => number | null
  /** Project of a public key. Looks once into Postgres for a key that may be brand new. */
  findKey: (apiKey: string) => Promise<ProjectKey | 'unknown' | 'unavailable'>
  /** Whether a project exists. Looks once into Postgres for one that may be brand new. */
  findProject: (projectId: number) => Promise<'known' | 'unknown' | 'unavailable'>
  /** Flags of a project that exists; one without any flag has an empty set. */
  get: (projectId: number) => FlagSet
  /** Reads again what has changed; resolves when it was read or could not be. */
  refresh: () => Promise<void>
  stop: () => Promise<void>
}

export interface DefinitionCacheOptions {
  sql: Sql
  /** For a connection of its own, on which changes are notified. */
  databaseUrl: string
  logger: Logger
  tallies: FlagTallies
}

/** Loads all definitions and keeps them current: an edit is seen within a second by every API process. */
export function createDefinitionCache (options: DefinitionCacheOptions): DefinitionCache {
  const { sql, databaseUrl: url, logger, tallies } = options
  const { promise: ready, resolve } = Promise.withResolvers<undefined>()
  let keys = new Map<string, ProjectKey>()
  let projects = new Set<number>()
  const sets = new Map<number, { revision: number, set: FlagSet }>()
  let isReady = false
  let keysReadAt = -Infinity
  let retry: NodeJS.Timeout | undefined

  const readAll = async (isGivenUp: () => boolean): Promise<void> => {
    // The time of asking, not of the answer: a key made in between is not in it.
    const askedAt = performance.now()
    const [freshKeys, freshProjects, revisions] = await Promise.all([
      loadProjectKeys(sql), loadProjectIds(sql), loadRevisions(sql)
    ])
    for (const [projectId, revision] of revisions) {
      if (sets.get(projectId)?.revision === revision) continue
      const definitions = await loadDefinitions(sql, projectId)
      if (isGivenUp()) return
      if (definitions === null) continue
      const set = compileFlagSet(definitions, tallies.forProject(projectId))
      sets.set(projectId, { revision, set })
      for (const [flag, attr] of set.malformed) logger.warn({ projectId, flag, attr }, 'filters of a flag are malformed')
    }
    for (const projectId of sets.keys()) {
      if (!revisions.has(projectId)) sets.delete(projectId)
    }
    // Last: a key or project that is known must never meet flags that are not, or its users would get an empty set.
    keys = freshKeys
    projects = freshProjects
    keysReadAt = askedAt
    isReady = true
    resolve(undefined)
  }
  const refresh = coalesce(async () => {
    clearTimeout(retry)
    let isGivenUp = false
    try {
      await withTimeout(READ_TIMEOUT_MS, readAll(() => isGivenUp))
    } catch (err) {
      isGivenUp = true
      logger.warn({ err, retryAfterMs: RETRY_MS }, 'definitions of flags could not be read; the last ones are served')
      retry = setTimeout(() => { void refresh() }, RETRY_MS).unref()
    }
  })
  /** Reads again unless that was just done; false when Postgres did not answer. */
  const lookAgain = async (): Promise<boolean> => {
    if (performance.now() - keysReadAt <= LOOK_PAUSE_MS) return true
    const before = keysReadAt
    // Late or failed is told by the time of the last reading.
    await withTimeout(LOOK_TIMEOUT_MS, refresh()).catch(() => {})
    return keysReadAt !== before
  }
  const onChange = (): void => { void refresh() }
  const listeners = ['millrace_flags', 'millrace_keys'].map((channel) => listenPostgres({ url, channel, logger, onChange }))
  const timer = setInterval(onChange, REFRESH_MS).unref()

  return {
    ready,
    isReady: () => isReady,
    ageMs: () => isReady ? Math.round(performance.now() - keysReadAt) : null,
    async findKey (apiKey) {
      if (!keys.has(apiKey) && !await lookAgain()) return 'unavailable'
      const key = keys.get(apiKey)
      const isExpired = key !== undefined && key.expiresAt !== null && key.expiresAt.getTime() <= Date.now()
      return key === undefined || isExpired ? 'unknown' : key
    },
    async findProject (projectId) {
      if (!projects.has(projectId) && !await lookAgain()) return 'unavailable'
      return projects.has(projectId) ? 'known' : 'unknown'
    },
    get: (projectId) => sets.get(projectId)?.set ?? emptySet(projectId),
    refresh,
    async stop () {
      clearInterval(timer)
      clearTimeout(retry)
      await Promise.all(listeners.map(async (listener) => await listener.stop()))
    }
  }
}

function emptySet (projectId: number): FlagSet {
  return compileFlagSet({ projectId, timezone: 'UTC', flags: [], cohorts: [], groupTypes: new Map() })
}

/** Runs the work once at a time; calls during a run share one further run, which sees what they saw. */
function coalesce (work: () => Promise<void>): () => Promise<void> {
  let last = Promise.resolve()
  let waiting: Promise<void> | null = null
  return async () => {
    if (waiting === null) {
      waiting = last.then(async () => {
        waiting = null
        await work()
      })
      last = waiting
    }
    await waiting
  }
}
