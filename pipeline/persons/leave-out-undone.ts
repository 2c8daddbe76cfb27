import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type ErasedIds, type ErasureRow, isErased, toErasedIds } from '../../schema/wire/erased-ids.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { isIllegalDistinctId } from './merge-persons.ts'

/** What was done about persons of some projects, and holds for updates received before. */
export interface Past {
  erased: ReadonlyMap<number, ErasedIds>
  /** Events of undone merges. */
  undone: ReadonlySet<string>
  /** With the time of each, epoch milliseconds. */
  splits: readonly { projectId: number, parts: readonly (readonly string[])[], at: number }[]
}

/**
 * Reads what `leaveOut` needs. The caller has the persons lock.
 *
 * @param projects  Those that had an erasure or a repair: without one this reads nothing.
 * @returns null without any.
 */
export async function readPast (
  transaction: TransactionSql, projects: ReadonlySet<number>, updates: readonly PersonsUpdate[]
): Promise<Past | null> {
  if (projects.size === 0) return null
  const ids = [...projects]
  const erasures = await transaction<ErasureRow[]>`
    SELECT project_id, salt, hashes, requested_at FROM erasures WHERE project_id = ANY (${ids}::int[])`
  // Splits concern replayed letters only: a later event joins the parts again.
  const replayed = updates.flatMap((update) => update.kind === 'merge' && update.receivedAt !== undefined ? [update.distinctId, update.otherDistinctId] : [])
  const repairs = await transaction<{ projectId: number, uuid: string | null, parts: string[][] | null, at: number }[]>`
    SELECT project_id AS "projectId", event_uuid AS uuid, parts, (extract(epoch FROM done_at) * 1000)::float8 AS at FROM person_repairs
    WHERE project_id = ANY (${ids}::int[]) AND done_at IS NOT NULL AND (kind = 'undo' OR distinct_ids && ${replayed}::text[])`
  return {
    erased: toErasedIds(erasures),
    undone: new Set(repairs.flatMap(({ uuid }) => uuid ?? [])),
    splits: repairs.flatMap(({ parts, ...split }) => parts === null ? [] : [{ ...split, parts }])
  }
}

/**
 * Leaves out what erased distinct ids did before the erasure, and merges that were undone or whose ids a split parted
 * after they were received: updates that were on their way, or come back by a replay or from an old spool.
 */
export function leaveOut (update: PersonsUpdate, { erased, undone, splits }: Past): PersonsUpdate[] {
  if (update.kind !== 'person' && update.kind !== 'merge') return [update]
  const ids = erased.get(update.projectId)
  const { projectId, distinctId, timestamp } = update
  if (ids !== undefined && isErased(ids, projectId, distinctId, timestamp)) return []
  if (update.kind === 'person') return [update]
  const { otherDistinctId: other, how, ...own } = update
  const isGone = ids !== undefined && isErased(ids, projectId, other, timestamp)
  const isUndone = undone.has(update.uuid)
  const isParted = ![distinctId, other].some(isIllegalDistinctId) && splits.some(({ parts, at, ...split }) =>
    split.projectId === projectId && (update.receivedAt ?? Infinity) <= at &&
    parts.some((part) => part.includes(distinctId) !== part.includes(other)))
  if (!isGone && !isUndone && !isParted) return [update]
  // As a repair decides it.
  const identify = isUndone ? how === 'identify' : update.identify !== false
  return [{ ...own, kind: 'person', identify }]
}
