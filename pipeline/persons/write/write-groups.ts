import { type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { toCopyTime, type PersonsCopies } from '../../../platform/persons/persons-copies.ts'
import { type PersonsState } from '../load/persons-state.ts'

/** Writes new group types and changed groups, and adds their copies. */
export async function writeGroups (
  transaction: TransactionSql, state: PersonsState, versionOf: (projectId: number) => number, copies: PersonsCopies
): Promise<void> {
  if (state.newGroupTypes.length > 0) {
    const types = state.newGroupTypes.map(({ projectId, groupType, groupTypeIndex }) =>
      ({ p: projectId, t: groupType, i: groupTypeIndex }))
    await transaction`
      INSERT INTO group_types (project_id, group_type, group_type_index)
      SELECT * FROM json_to_recordset(${JSON.stringify(types)}::text::json) AS new (p integer, t text, i integer)`
  }
  const changed = state.groups.filter((group) => group.changed)
  if (changed.length === 0) return
  const rows = changed.map((group) => ({
    p: group.projectId, i: group.groupTypeIndex, k: group.groupKey, properties: group.properties,
    created: group.createdAt, v: versionOf(group.projectId)
  }))
  await transaction`
    INSERT INTO groups (project_id, group_type_index, group_key, properties, created_at, version)
    SELECT p, i, k, properties, to_timestamp(created / 1000.0), v
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS changed
      (p integer, i integer, k text, properties jsonb, created bigint, v bigint)
    ON CONFLICT (project_id, group_type_index, group_key)
      DO UPDATE SET properties = excluded.properties, version = excluded.version`
  for (const group of changed) {
    copies.groups.push({
      project_id: group.projectId,
      group_type: group.groupType,
      group_key: group.groupKey,
      group_type_index: group.groupTypeIndex,
      properties: group.properties,
      created_at: toCopyTime(group.createdAt),
      version: versionOf(group.projectId),
      is_deleted: 0
    })
  }
}
