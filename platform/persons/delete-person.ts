import { type Logger } from '../logger.ts'
import { beginPersonDeletion } from './begin-person-deletion.ts'
import { findPersonByUuid } from './find-person.ts'
import { finishPersonDeletion, type DeletionProgress, type FinishDeletionDeps } from './finish-person-deletion.ts'

export interface DeletePersonRequest {
  projectId: number
  /** The person's id as events or answers show it; one from before a merge will do. */
  uuid: string
  /** Also delete the events received so far, of all its distinct ids. */
  withEvents: boolean
}

/**
 * Deletes a person, and its events if asked.
 *
 * Once this returned the deletion cannot be undone nor forgotten: what is not done within `deps.waitMs`, or while
 * ClickHouse is unavailable, a pipeline process finishes.
 *
 * @returns null when there is no such person.
 * @throws when Postgres is unavailable, or ClickHouse while it is needed to find out who the id belongs to.
 */
export async function deletePerson (
  request: DeletePersonRequest, deps: FinishDeletionDeps & { logger: Logger }
): Promise<DeletionProgress & { uuid: string } | null> {
  const { projectId, withEvents } = request
  const uuid = await findPersonByUuid(deps, projectId, request.uuid)
  if (uuid === null) return null
  const deletion = await beginPersonDeletion(deps.sql, { projectId, uuid, withEvents })
  if (deletion === null) return null
  try {
    return { uuid, ...await finishPersonDeletion(deletion, deps) }
  } catch (err) {
    deps.logger.warn({ err, deletion: deletion.id }, 'deletion of a person is recorded and will be finished later')
    return { uuid, isDone: false, events: 0 }
  }
}
