import { HttpError, invalidField } from '../../../engines/errors.ts'
import type { KeyDirectory } from '../../../platform/directory/key-directory.ts'
import type { DefinitionCache } from './definition-cache.ts'

export interface ResolveProjectDeps {
  keys: KeyDirectory
  definitions: DefinitionCache
}

/**
 * Finds the project whose flags a request asks for: that of its key, once the flags of that project are known.
 *
 * @param token      The key; null when the request has none.
 * @param projectId  The project that a request with a personal key names.
 * @throws {HttpError} what `KeyDirectory.findProject` throws.
 */
export async function resolveProject (
  token: string | null, projectId: unknown, { keys, definitions }: ResolveProjectDeps
): Promise<number> {
  const { id } = await keys.findProject(token ?? '', projectId, 'feature_flag:read')
  // SDKs take an empty set for the truth and forget every flag that they knew: better no answer than one too early.
  const flags = await definitions.knows(id)
  if (flags === 'known') return id
  if (flags === 'unknown') {
    throw invalidField('project_id', 'The project does not exist any more.', 'invalid_project')
  }
  throw new HttpError(503, 'server_error', 'fetch_team_fail', 'The flags of this project cannot be read at the moment.')
}
