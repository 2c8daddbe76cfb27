import { parseStoredJson } from '../../http-body/parse-json.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import type { PersonsUpdate } from '../../schema/persons-update.ts'
import { PersonsState, type PersonState, type Properties } from './persons-state.ts'

/** UTF-8 needs at most this many bytes for a UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3

/**
 * Loads the persons, groups and group types that updates name, in a fixed number of queries.
 *
 * The caller has the persons lock of their projects, so what is loaded stays true until its transaction ends.
 *
 * @returns the state, and how many characters of properties were read for it.
 */
export async function loadAll (
  transaction: TransactionSql, updates: readonly PersonsUpdate[], maxGroupTypes: number
): Promise<{ state: PersonsState, propertiesLength: number }> {
  const state = new PersonsState(maxGroupTypes)
  const [personsLength, groupsLength] = await planEachTime(transaction, async () => await Promise.all([
    loadPersons(transaction, state, updates),
    loadGroups(transaction, state, updates)
  ]))
  return { state, propertiesLength: personsLength + groupsLength }
}

interface PersonRow {
  distinctId: string
  id: number
  projectId: number
  uuid: string
  properties: string
  isIdentified: boolean
  createdAt: Date
}

async function loadPersons (
  transaction: TransactionSql, state: PersonsState, updates: readonly PersonsUpdate[]
): Promise<number> {
  const named = new Map<string, { p: number, d: string }>()
  for (const update of updates) {
    if (update.kind !== 'person' && update.kind !== 'merge') continue
    named.set(`${update.projectId}:${update.distinctId}`, { p: update.projectId, d: update.distinctId })
    if (update.kind === 'person') continue
    named.set(`${update.projectId}:${update.otherDistinctId}`, { p: update.projectId, d: update.otherDistinctId })
  }
  if (named.size === 0) return 0

  const rows = await transaction<PersonRow[]>`
    SELECT d AS "distinctId", id, project_id AS "projectId", uuid, properties::text AS properties,
      is_identified AS "isIdentified", created_at AS "createdAt"
    FROM json_to_recordset(${JSON.stringify([...named.values()])}::text::json) AS named (p integer, d text)
    CROSS JOIN LATERAL (
      SELECT persons.* FROM person_distinct_ids AS ids JOIN persons ON persons.id = ids.person_id
      WHERE ids.project_id = p AND ids.distinct_id = d LIMIT 1
    ) AS person`
  const byId = new Map<number, PersonState>()
  let length = 0
  for (const { distinctId, ...row } of rows) {
    let person = byId.get(row.id)
    if (person === undefined) {
      length += row.properties.length
      person = {
        ...row,
        createdAt: row.createdAt.getTime(),
        properties: parseStoredJson(row.properties) as Properties,
        sizeBound: row.properties.length * MAX_BYTES_PER_UNIT,
        isMeasured: false,
        leading: new Set(),
        changed: false,
        mergedInto: null,
        absorbed: []
      }
      byId.set(row.id, person)
      state.addPerson(person)
    }
    state.loadPerson(distinctId, person)
  }
  return length
}

interface GroupRow {
  projectId: number
  groupType: string
  groupTypeIndex: number
  groupKey: string
  properties: string
  createdAt: Date
}

async function loadGroups (
  transaction: TransactionSql, state: PersonsState, updates: readonly PersonsUpdate[]
): Promise<number> {
  const types = new Map<string, { p: number, t: string }>()
  const groups = new Map<string, { p: number, t: string, k: string }>()
  for (const update of updates) {
    if (update.kind !== 'group' && update.kind !== 'groupType') continue
    const { projectId: p, groupType: t } = update
    types.set(`${p}:${t}`, { p, t })
    // NUL cannot occur in either, so the key is unique.
    if (update.kind === 'group') groups.set(`${p}:${t}\0${update.groupKey}`, { p, t, k: update.groupKey })
  }
  if (types.size === 0) return 0

  const [typeRows, counts] = await Promise.all([
    transaction<{ projectId: number, groupType: string, index: number }[]>`
      SELECT project_id AS "projectId", group_type AS "groupType", group_type_index AS index
      FROM json_to_recordset(${JSON.stringify([...types.values()])}::text::json) AS named (p integer, t text)
      JOIN group_types ON project_id = p AND group_type = t`,
    transaction<{ projectId: number, count: number }[]>`
      SELECT project_id AS "projectId", max(group_type_index) + 1 AS count FROM group_types
      WHERE project_id = ANY (${[...new Set([...types.values()].map(({ p }) => p))]}::int[]) GROUP BY project_id`
  ])
  for (const { projectId, groupType, index } of typeRows) state.loadGroupType(projectId, groupType, index)
  for (const { projectId, count } of counts) state.loadGroupTypeCount(projectId, count)
  // The planner estimates a hundred rows for any list: LATERAL makes it use the index for each item.
  const groupRows = await transaction<GroupRow[]>`
    SELECT p AS "projectId", t AS "groupType", i AS "groupTypeIndex", k AS "groupKey", properties::text AS properties,
      created_at AS "createdAt"
    FROM json_to_recordset(${JSON.stringify([...groups.values()])}::text::json) AS named (p integer, t text, k text)
    CROSS JOIN LATERAL (
      SELECT group_type_index AS i FROM group_types WHERE project_id = p AND group_type = t LIMIT 1
    ) AS type
    CROSS JOIN LATERAL (
      SELECT properties, created_at FROM groups WHERE project_id = p AND group_type_index = i AND group_key = k LIMIT 1
    ) AS "group"`
  let length = 0
  for (const row of groupRows) {
    length += row.properties.length
    state.addGroup({
      ...row,
      createdAt: row.createdAt.getTime(),
      properties: parseStoredJson(row.properties) as Properties,
      sizeBound: row.properties.length * MAX_BYTES_PER_UNIT,
      isMeasured: false,
      leading: new Set(),
      changed: false
    })
  }
  return length
}

/**
 * Runs statements that join a list with a large table, and has Postgres plan them each time: a plan cached while the
 * table was empty would scan all of it for each item of the list until the table is analysed.
 *
 * Not for inserts: in this mode Postgres also plans the foreign-key check of each row, which doubles their cost.
 */
export async function planEachTime<T> (transaction: TransactionSql, run: () => Promise<T>): Promise<T> {
  await transaction`SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`
  const result = await run()
  await transaction`SELECT set_config('plan_cache_mode', 'auto', true)`
  return result
}
