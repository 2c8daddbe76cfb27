import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type ErasureRow, isErased, toErasedIds } from '../../schema/wire/erased-ids.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'

/**
 * Returns a function that leaves out what erased distinct ids did before the erasure, and merges that were undone:
 * updates that were on their way, or come back by a replay or from an old spool. The caller has the persons lock.
 *
 * @param past  Projects that had an erasure or an undone merge: without one this reads nothing.
 */
export async function createLeaveOut (
  transaction: TransactionSql, past: ReadonlySet<number>
): Promise<(update: PersonsUpdate) => PersonsUpdate[]> {
  if (past.size === 0) return (update) => [update]
  const erased = toErasedIds(await transaction<ErasureRow[]>`
    SELECT project_id, salt, hashes, requested_at FROM erasures WHERE project_id = ANY (${[...past]}::int[])`)
  const repairs = await transaction<{ uuid: string }[]>`
    SELECT event_uuid AS uuid FROM person_repairs
    WHERE project_id = ANY (${[...past]}::int[]) AND kind = 'undo' AND done_at IS NOT NULL`
  const undone = new Set(repairs.map(({ uuid }) => uuid))
  return (update) => {
    if (update.kind !== 'person' && update.kind !== 'merge') return [update]
    const ids = erased.get(update.projectId)
    const { projectId, distinctId, timestamp } = update
    if (ids !== undefined && isErased(ids, projectId, distinctId, timestamp)) return []
    if (update.kind === 'person') return [update]
    const isGone = ids !== undefined && isErased(ids, projectId, update.otherDistinctId, timestamp)
    const isUndone = undone.has(update.uuid)
    if (!isGone && !isUndone) return [update]
    const { otherDistinctId: _, how, ...own } = update
    // As a repair decides it.
    const identify = isUndone ? how === 'identify' : update.identify !== false
    return [{ ...own, kind: 'person', identify }]
  }
}
