import { HttpError } from '../../engines/errors.ts'
import { coalesce, withTimeout } from '../intervals.ts'
import type { Logger } from '../logger.ts'
import { requireRight } from '../../schema/roles.ts'
import { requireScope, type Scope } from '../../schema/scopes.ts'
import { hashPersonalKey, isPersonalKey } from '../../schema/key-text.ts'
import type { KeyTable, PersonalKey, Project, ReadKeys } from './read-keys.ts'

/**
 * Finds the project of an API key, for capture, the flag endpoints and management. It works on a copy of the tables of
 * keys (tens of rows) in memory.
 *
 * - A known key is answered from memory, also while Postgres is unavailable, until it expires.
 * - The copy is read again when Postgres notifies a change, and every 15 s in case a notification was missed.
 * - A key or project that is not in the copy makes it be read again too, so that a new one works at once. A flood of
 *   unknown keys costs five readings at first and then one a second, for all requests together.
 * - When that reading fails, it is unknown whether the key is valid: 503 `fetch_team_fail`.
 *
 * Known keys are answered synchronously, others by a promise: a request with a known key does not wait.
 */
export interface KeyDirectory<P extends Project = Project> {
  /** Resolves after the first successful reading. Never rejects: it waits until Postgres is available. */
  readonly ready: Promise<void>
  /**
   * The project of a key: a project or team key, or a personal key together with a project.
   *
   * @param key    Empty when the request has none.
   * @param named  What the request names as the project of a personal key: a number or its digits.
   * @param scope  What a personal key must allow; project and team keys have no scopes.
   * @throws {HttpError} 401 `invalid_api_key` or `invalid_personal_api_key`, 403 `permission_denied`,
   *   400 `invalid_project`, 503 `fetch_team_fail`.
   */
  findProject (key: string, named: unknown, scope: Scope): P | Promise<P>
  /**
   * A personal key that may be used now.
   *
   * @throws {HttpError} 401 `invalid_personal_api_key`, whose detail says why; 503 `fetch_team_fail`.
   */
  findPersonalKey (key: string): PersonalKey | Promise<PersonalKey>
  /** The same by the stored form of the key (`hashPersonalKey`), for a session that was begun with it. */
  findPersonalKeyByHash (hash: string): PersonalKey | Promise<PersonalKey>
  /**
   * Whether a project exists.
   *
   * @throws {HttpError} 503 `fetch_team_fail`.
   */
  hasProject (id: number): boolean | Promise<boolean>
  /** Ids of the known projects, ascending. */
  projectIds (): number[]
  /** The known projects, in any order. */
  projects (): Iterable<P>
  /** Reads the tables again, because they changed. Resolves when they were read or could not be. */
  refresh (): Promise<void>
  /** State for health and metrics. */
  readonly state: Readonly<KeyDirectoryState>
}

export interface KeyDirectoryState {
  /** The keys were read at least once. */
  isReady: boolean
  /** The last reading worked. */
  isCurrent: boolean
  /** When the last reading that worked began, epoch milliseconds; NaN before the first. */
  readAt: number
  /** Lookups answered from memory. */
  hits: number
  /** Lookups of keys that are missing from the copy or have expired. */
  misses: number
}

export interface KeyDirectoryOptions<P extends Project> {
  readKeys: ReadKeys<P>
  logger: Logger
  /** Epoch milliseconds. */
  now: () => number
  /** Maximum wait of a request with an unknown key, in milliseconds. */
  maxWaitMs: number
}

/** Maximum reads in a row because of unknown keys; one per second on average. */
const MAX_READS_IN_A_ROW = 5
const MS_PER_READ = 1000

/** Maximum milliseconds of a reading; it is abandoned then. */
const READ_TIMEOUT_MS = 10_000

export function createKeyDirectory<P extends Project> (options: KeyDirectoryOptions<P>): KeyDirectory<P> {
  const { now } = options
  const copy = createKeyCopy(options)
  const { ready, state, refresh, readUntil } = copy

  return {
    ready,
    state,
    refresh,
    projects: () => copy.table.projects.values(),
    projectIds: () => [...copy.table.projects.keys()].sort((a, b) => a - b),
    findProject (key, named, scope) {
      if (key === '') throw invalidKey('The request has no API key.')
      const found = projectOf(key, named, scope)
      if (found === undefined) return findProjectAgain(key, named, scope)
      state.hits++
      return found
    },
    findPersonalKey: (key) => findPersonalKeyByHash(hashPersonalKey(key)),
    findPersonalKeyByHash,
    hasProject: (id) => copy.table.projects.has(id) ||
      readUntil(() => copy.table.projects.has(id)).then(() => copy.table.projects.has(id))
  }

  /** Undefined when the copy does not know the key, or the project that it names. */
  function projectOf (key: string, named: unknown, scope: Scope): P | undefined {
    if (!isPersonalKey(key)) {
      const found = copy.table.projectKeys.get(key)
      return found === undefined || found.expiresAt <= now() ? undefined : found.project
    }
    const personal = usableKey(hashPersonalKey(key))
    if (personal === undefined) return undefined
    requireScope(personal.scopes, scope)
    const projectId = readProjectId(personal, named)
    if (personal.limits.length > 0) requireRight(personal, projectId, scope)
    return copy.table.projects.get(projectId)
  }

  async function findProjectAgain (key: string, named: unknown, scope: Scope): Promise<P> {
    state.misses++
    await readUntil(() => projectOf(key, named, scope) !== undefined)
    const found = projectOf(key, named, scope)
    if (found !== undefined) return found
    if (!isPersonalKey(key)) throw invalidKey('The project API key is not valid.')
    throw usableKey(hashPersonalKey(key)) === undefined ? invalidPersonalKey(hashPersonalKey(key)) : invalidProject('project_id names no project.')
  }

  function findPersonalKeyByHash (hash: string): PersonalKey | Promise<PersonalKey> {
    const found = usableKey(hash)
    if (found === undefined) return findPersonalKeyAgain(hash)
    state.hits++
    return found
  }

  function usableKey (hash: string): PersonalKey | undefined {
    const found = copy.table.personalKeys.get(hash)
    return found === undefined || found.isRevoked || found.expiresAt <= now() ? undefined : found
  }

  async function findPersonalKeyAgain (hash: string): Promise<PersonalKey> {
    state.misses++
    await readUntil(() => usableKey(hash) !== undefined)
    const found = usableKey(hash)
    if (found === undefined) throw invalidPersonalKey(hash)
    return found
  }

  function invalidPersonalKey (hash: string): HttpError {
    const found = copy.table.personalKeys.get(hash)
    const why = found === undefined ? 'is invalid' : found.isRevoked ? 'was revoked' : 'has expired'
    return new HttpError(401, 'authentication_error', 'invalid_personal_api_key', `Personal API key ${why}.`)
  }
}

/** The copy of the tables in memory, and when it is read again. */
function createKeyCopy<P extends Project> ({ readKeys, logger, now, maxWaitMs }: KeyDirectoryOptions<P>) {
  const { promise: ready, resolve: onReady } = Promise.withResolvers<undefined>()
  const state: KeyDirectoryState = { isReady: false, isCurrent: false, readAt: NaN, hits: 0, misses: 0 }
  const table: KeyTable<P> = { projects: new Map(), projectKeys: new Map(), personalKeys: new Map() }
  /** When the readings because of unknown keys so far are paid for, epoch milliseconds. */
  let paidUntil = -Infinity
  let failure: unknown = null
  let reading: Promise<void> | null = null

  const refresh = coalesce(async () => {
    // A reading in progress may miss the change.
    await reading?.catch(() => {})
    await read().catch((err: unknown) => logger.warn({ err }, 'could not read API keys; known keys keep working'))
  })
  const copy = { table, ready, state, refresh, readUntil }
  return copy

  /** Reads the tables for a request, unless too many requests had that done. */
  async function readUntil (isFound: () => boolean): Promise<void> {
    if (reading !== null) {
      await withTimeout(maxWaitMs, reading).catch((error: unknown) => { throw unavailable(error) })
      // It may have begun before the key was created.
      if (isFound()) return
    }
    if (reading === null && !mayRead()) {
      // A failure holds for all requests within the pause.
      if (failure !== null) throw unavailable(failure)
      return
    }
    await withTimeout(maxWaitMs, read()).catch((error: unknown) => { throw unavailable(error) })
  }

  function mayRead (): boolean {
    if (paidUntil > now() + (MAX_READS_IN_A_ROW - 1) * MS_PER_READ) return false
    // After a failure one reading a second is enough: Postgres is unavailable.
    if (failure !== null && paidUntil > now()) return false
    paidUntil = Math.max(paidUntil, now()) + MS_PER_READ
    return true
  }

  function read (): Promise<void> {
    reading ??= readOnce().finally(() => { reading = null })
    return reading
  }

  async function readOnce (): Promise<void> {
    const readAt = now()
    try {
      copy.table = await withTimeout(READ_TIMEOUT_MS, readKeys())
      failure = null
      Object.assign(state, { readAt, isReady: true, isCurrent: true })
      onReady(undefined)
    } catch (error) {
      failure = error
      state.isCurrent = false
      throw error
    }
  }
}

/**
 * The project that a personal key is used for: the one named, or the only one the key is for.
 *
 * @throws {HttpError} 400 `invalid_project` if it does not exist, or the key is not for it.
 */
function readProjectId ({ projectIds }: PersonalKey, named: unknown): number {
  const candidate = named ?? (projectIds?.length === 1 ? projectIds[0] : undefined)
  if (candidate === undefined) throw invalidProject('A personal API key needs project_id, the project it is used for.')
  const id = typeof candidate === 'string' && /^[1-9]\d{0,9}$/.test(candidate) ? Number(candidate) : candidate
  if (typeof id !== 'number' || !Number.isSafeInteger(id) || projectIds?.includes(id) === false) {
    throw invalidProject('project_id names no project that this personal API key may use.')
  }
  return id
}

function invalidProject (detail: string): HttpError {
  return new HttpError(400, 'validation_error', 'invalid_project', detail, { attr: 'project_id' })
}

function invalidKey (detail: string): HttpError {
  return new HttpError(401, 'authentication_error', 'invalid_api_key', detail)
}

function unavailable (cause: unknown): HttpError {
  return new HttpError(503, 'server_error', 'fetch_team_fail', 'The project of this key cannot be looked up at the moment.', { cause })
}
