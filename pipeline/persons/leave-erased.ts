import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type ErasureRow, isErased, toErasedIds } from '../../schema/wire/erased-ids.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'

/**
 * Returns a function that leaves out what erased distinct ids did before the erasure: updates that were on their way,
 * or come back by a replay or from an old spool. The caller has the persons lock.
 *
 * @param erasedAt  Projects that had an erasure: without one this reads nothing.
 */
export async function createLeaveErased (
  transaction: TransactionSql, erasedAt: ReadonlyMap<number, Date>
): Promise<(update: PersonsUpdate) => PersonsUpdate[]> {
  if (erasedAt.size === 0) return (update) => [update]
  const erased = toErasedIds(await transaction<ErasureRow[]>`
    SELECT project_id, salt, hashes, requested_at FROM erasures WHERE project_id = ANY (${[...erasedAt.keys()]}::int[])`)
  return (update) => {
    const ids = erased.get(update.projectId)
    if (ids === undefined || (update.kind !== 'person' && update.kind !== 'merge')) return [update]
    const { projectId, distinctId, timestamp } = update
    if (isErased(ids, projectId, distinctId, timestamp)) return []
    if (update.kind === 'person' || !isErased(ids, projectId, update.otherDistinctId, timestamp)) return [update]
    const { otherDistinctId: _, how: __, ...own } = update
    return [{ ...own, kind: 'person', identify: update.identify !== false }]
  }
}
