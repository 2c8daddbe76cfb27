import { createHash } from 'node:crypto'
import { HttpError } from '../errors.ts'
import { type Logger } from '../logger.ts'
import { CAPTURE_SCOPE, requireScope } from '../scopes.ts'
import { type KeyTable, type LoadKeys, type Project } from './read-keys.ts'

/**
 * Knows which project a key stands for, from a copy of the tables of keys (tens of rows).
 *
 * - A known key is answered from memory, also while Postgres is unavailable, until it expires.
 * - A key that is not in the copy makes the copy be read again, but at most once a second for all requests together,
 *   so that a flood of unknown keys costs one query a second.
 * - When that reading fails, nobody knows whether the key is good: 503 `fetch_team_fail`.
 */
export interface KeyDirectory {
  /**
   * @param projectId  Project the request names, for a personal key.
   * @throws {HttpError} 401 `invalid_api_key` or `invalid_personal_api_key`, 403 `permission_denied` for a personal
   *   key without the scope `event:write`, 400 `invalid_project`, 503 `fetch_team_fail`. A known key is answered at
   *   once, others by a promise.
   */
  resolve (key: string, projectId: unknown): Project | Promise<Project>
  /** Reads the tables again, because they changed. */
  refresh (): Promise<void>
  /** Whether the last reading worked, and how keys were found so far. */
  readonly state: KeyDirectoryState
}

export interface KeyDirectoryState {
  isCurrent: boolean
  /** Answered from memory. */
  hits: number
  /** Not in the copy, or expired: the copy was read again. */
  misses: number
}

/** Unknown keys cause at most one reading in this time. */
const MIN_REFRESH_PAUSE_MS = 1000

export interface KeyDirectoryOptions {
  loadKeys: LoadKeys
  logger: Logger
  now: () => number
}

export function createKeyDirectory ({ loadKeys, logger, now }: KeyDirectoryOptions): KeyDirectory {
  let table: KeyTable | null = null
  let triedAt = -Infinity
  let failure: unknown = null
  const state: KeyDirectoryState = { isCurrent: false, hits: 0, misses: 0 }
  let loading: Promise<void> | null = null
  let changedWhileLoading = false

  return {
    resolve (key, projectId) {
      if (key === '') throw invalidKey('The request carries no API key.')
      const found = find(key, projectId)
      if (found === null) {
        state.misses++
        return findAgain(key, projectId)
      }
      state.hits++
      return found
    },
    state,
    async refresh () {
      changedWhileLoading = loading !== null
      await load()
    }
  }

  function find (key: string, projectId: unknown): Project | null {
    if (table === null) return null
    if (isPersonal(key)) {
      const personal = table.personalKeys.get(hashOf(key))
      if (personal === undefined || personal.expiresAt <= now()) return null
      requireScope(personal.scopes, CAPTURE_SCOPE)
      return findProject(table, personal.projectIds, projectId)
    }
    const found = table.projectKeys.get(key)
    return found === undefined || found.expiresAt <= now() ? null : found.project
  }

  async function findAgain (key: string, projectId: unknown): Promise<Project> {
    // A failure is remembered in `failure`, for everybody who asks within the pause.
    if (loading !== null || now() - triedAt >= MIN_REFRESH_PAUSE_MS) await load().catch(() => {})
    const project = find(key, projectId)
    if (project !== null) return project
    if (failure !== null) {
      throw new HttpError(503, 'server_error', 'fetch_team_fail', 'The project of this key cannot be looked up at the moment.', { cause: failure })
    }
    throw isPersonal(key)
      ? new HttpError(401, 'authentication_error', 'invalid_personal_api_key', 'The personal API key is not valid.')
      : invalidKey('The project API key is not valid.')
  }

  function load (): Promise<void> {
    loading ??= loadOnce().finally(() => {
      loading = null
      if (!changedWhileLoading) return
      changedWhileLoading = false
      load().catch((err: unknown) => logger.warn({ err }, 'keys could not be read again'))
    })
    return loading
  }

  async function loadOnce (): Promise<void> {
    triedAt = now()
    try {
      table = await loadKeys()
      failure = null
      state.isCurrent = true
    } catch (error) {
      failure = error
      state.isCurrent = false
      throw error
    }
  }
}

function isPersonal (key: string): boolean {
  return key.startsWith('phx_')
}

function hashOf (key: string): string {
  return `sha256$${createHash('sha256').update(key).digest('hex')}`
}

/** The project a personal key writes to: the one named, or the only one the key is for. */
function findProject (table: KeyTable, allowed: readonly number[] | null, named: unknown): Project {
  const candidate = named ?? (allowed?.length === 1 ? allowed[0] : undefined)
  const id = typeof candidate === 'string' && /^\d{1,9}$/.test(candidate) ? Number(candidate) : candidate
  const project = typeof id === 'number' ? table.projects.get(id) : undefined
  if (project !== undefined && (allowed === null || allowed.includes(project.id))) return project
  const detail = named === undefined
    ? 'A personal API key needs project_id, the project to attach the events to.'
    : 'project_id names no project that this personal API key may write to.'
  throw new HttpError(400, 'validation_error', 'invalid_project', detail, { attr: 'project_id' })
}

function invalidKey (detail: string): HttpError {
  return new HttpError(401, 'authentication_error', 'invalid_api_key', detail)
}
