import { HttpError } from '../../platform/errors.ts'
import { type AuthenticateOptions, findUsableKey } from '../http/personal-key-access.ts'
import { parseInteger } from '../http/request-validation.ts'
import { requireScope } from '../../platform/scopes.ts'
import { type DefinitionCache } from './definition-cache.ts'

export interface ResolveProjectDeps extends Pick<AuthenticateOptions, 'personalKeys' | 'now'> {
  definitions: DefinitionCache
}

/**
 * Finds the project of an API key: a project or team key, or a personal key together with a project.
 *
 * @param token      The key; null when the request has none.
 * @param projectId  `project_id` of a request with a personal key.
 * @throws {HttpError} 401 `invalid_api_key` or `invalid_personal_api_key`, 400 `invalid_project`, and 503
 *   `fetch_team_fail` for an unknown key while Postgres is unavailable.
 */
export async function resolveProject (
  token: string | null, projectId: unknown, deps: ResolveProjectDeps
): Promise<number> {
  if (token === null) throw invalidApiKey('The request has no API key.')
  if (token.startsWith('phx_')) return await resolvePersonal(token, projectId, deps)
  const key = await deps.definitions.findKey(token)
  if (key === 'unknown') throw invalidApiKey('The project API key is not valid.')
  if (key === 'unavailable') throw unavailable()
  return key.projectId
}

async function resolvePersonal (token: string, named: unknown, deps: ResolveProjectDeps): Promise<number> {
  // Before the first read every set is empty, and an empty set would be a wrong answer.
  if (!deps.definitions.isReady()) throw unavailable()
  const { projectIds, scopes } = await findUsableKey(token, deps)
  requireScope(scopes, 'feature_flag:read')
  const id = readProjectId(named ?? (projectIds?.length === 1 ? projectIds[0] : undefined))
  if (id === undefined || (projectIds !== null && !projectIds.includes(id))) throw invalidProject()
  // A key may outlive its projects. An empty set would make SDKs forget all flags, so this is an error.
  const found = await deps.definitions.findProject(id)
  if (found === 'unavailable') throw unavailable()
  if (found === 'unknown') throw invalidProject()
  return id
}

/** The id of a project: a number, or its digits in a query. */
function readProjectId (named: unknown): number | undefined {
  const id = typeof named === 'string' ? parseInteger(named) : named
  return typeof id === 'number' && Number.isSafeInteger(id) ? id : undefined
}

function invalidProject (): HttpError {
  return new HttpError(400, 'validation_error', 'invalid_project',
    'A personal API key needs project_id: an existing project that the key may read.', { attr: 'project_id' })
}

function unavailable (): HttpError {
  return new HttpError(503, 'server_error', 'fetch_team_fail', 'The project of this key cannot be looked up at the moment.')
}

function invalidApiKey (detail: string): HttpError {
  return new HttpError(401, 'authentication_error', 'invalid_api_key', detail)
}
