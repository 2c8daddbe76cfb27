import { parseStoredJson } from '../../engines/body/parse-json.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { PersonsState, type Properties, type PropertyOwner } from './persons-state.ts'

/** UTF-8 needs at most this many bytes for a UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3

/** Properties with no more bytes are read together with what has them: nearly all are. */
const SMALL_BYTES = 4096

/** Properties of a person, in a list with their times if it has any: they are as large. */
const OWNED = `CASE WHEN property_times IS NULL THEN properties::text
  ELSE jsonb_build_array(properties, property_times)::text END`

/** A person or a group as it is stored. */
interface StoredRow {
  projectId: number
  /** JSON, of a person perhaps with the times of the properties; null: large, and not read yet. */
  properties: string | null
  /** Of the JSON. */
  bytes: number
  createdAt: Date
}

export interface PersonRow extends StoredRow {
  id: number
  /** Those of its ids that updates name. */
  distinctIds: string[]
  uuid: string
  isIdentified: boolean
}

interface GroupRow extends StoredRow {
  groupType: string
  groupTypeIndex: number
  groupKey: string
}

export type OwnerRow = PersonRow | GroupRow

/** What updates name, as far as it is stored; of large properties the size only. */
export interface FoundRows {
  /** Has the group types, and nothing else. */
  state: PersonsState
  /** By `personName`. All ids of a person have the same row. */
  persons: ReadonlyMap<string, PersonRow>
  /** By `groupName`. */
  groups: ReadonlyMap<string, GroupRow>
}

/**
 * Finds the persons, groups and group types that updates name, in a fixed number of queries.
 *
 * The caller has the persons lock of their projects, so the result stays true until its transaction ends, or it
 * changes it.
 */
export async function findRows (
  transaction: TransactionSql, updates: readonly PersonsUpdate[], maxGroupTypes: number
): Promise<FoundRows> {
  const state = new PersonsState(maxGroupTypes)
  return await planEachTime(transaction, async () => {
    const [persons, groups] = await Promise.all([
      findPersons(transaction, updates),
      findGroups(transaction, state, updates)
    ])
    return { state, persons, groups }
  })
}

/**
 * Reads the properties of large rows, and adds all rows whose properties are known to their state.
 *
 * @returns the bytes of properties in the state.
 */
export async function loadRows (
  transaction: TransactionSql, { state, persons, groups }: FoundRows, large: readonly OwnerRow[]
): Promise<number> {
  if (large.length > 0) {
    await planEachTime(transaction, async () => await Promise.all([
      readLargePersons(transaction, large.filter((row) => 'uuid' in row)),
      readLargeGroups(transaction, large.filter((row) => 'groupKey' in row))
    ]))
  }
  return addPersons(state, persons) + addGroups(state, groups)
}

/** What an update names; undefined: it is not stored. */
export function rowsOf (update: PersonsUpdate, { persons, groups }: FoundRows): (OwnerRow | undefined)[] {
  const { projectId, kind } = update
  if (kind === 'groupType') return []
  if (kind === 'group') return [groups.get(groupName(projectId, update.groupType, update.groupKey))]
  const person = persons.get(personName(projectId, update.distinctId))
  return kind === 'merge' ? [person, persons.get(personName(projectId, update.otherDistinctId))] : [person]
}

export function personName (projectId: number, distinctId: string): string {
  return `${projectId}:${distinctId}`
}

/** NUL cannot occur in either text, so the name is unique. */
export function groupName (projectId: number, groupType: string, groupKey: string): string {
  return `${projectId}:${groupType}\0${groupKey}`
}

async function findPersons (
  transaction: TransactionSql, updates: readonly PersonsUpdate[]
): Promise<FoundRows['persons']> {
  const named = new Map<string, { p: number, d: string }>()
  const name = (p: number, d: string): void => { named.set(personName(p, d), { p, d }) }
  for (const update of updates) {
    if (update.kind !== 'person' && update.kind !== 'merge') continue
    name(update.projectId, update.distinctId)
    if (update.kind === 'merge') name(update.projectId, update.otherDistinctId)
  }
  const found = new Map<string, PersonRow>()
  if (named.size === 0) return found

  // LIMIT makes the text once, however often it is named.
  const rows = await transaction<(Omit<PersonRow, 'distinctIds'> & { distinctId: string })[]>`
    SELECT d AS "distinctId", id, project_id AS "projectId", uuid, is_identified AS "isIdentified",
      created_at AS "createdAt", octet_length(text) AS bytes,
      CASE WHEN octet_length(text) <= ${SMALL_BYTES} THEN text END AS properties
    FROM json_to_recordset(${JSON.stringify([...named.values()])}::text::json) AS named (p integer, d text)
    CROSS JOIN LATERAL (
      SELECT persons.*, ${transaction.unsafe(OWNED)} AS text
      FROM person_distinct_ids AS ids JOIN persons ON persons.id = ids.person_id
      WHERE ids.project_id = p AND ids.distinct_id = d LIMIT 1
    ) AS person`
  const byId = new Map<number, PersonRow>()
  for (const { distinctId, ...row } of rows) {
    const person = byId.get(row.id) ?? { ...row, distinctIds: [] }
    person.distinctIds.push(distinctId)
    byId.set(row.id, person)
    found.set(personName(row.projectId, distinctId), person)
  }
  return found
}

/** Finds groups, and adds their types to the state. */
async function findGroups (
  transaction: TransactionSql, state: PersonsState, updates: readonly PersonsUpdate[]
): Promise<FoundRows['groups']> {
  const types = new Map<string, { p: number, t: string }>()
  const groups = new Map<string, { p: number, t: string, k: string }>()
  for (const update of updates) {
    if (update.kind !== 'group' && update.kind !== 'groupType') continue
    const { projectId: p, groupType: t } = update
    types.set(`${p}:${t}`, { p, t })
    if (update.kind === 'group') groups.set(groupName(p, t, update.groupKey), { p, t, k: update.groupKey })
  }
  if (types.size === 0) return new Map()

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
  const rows = await transaction<GroupRow[]>`
    SELECT p AS "projectId", t AS "groupType", i AS "groupTypeIndex", k AS "groupKey", created_at AS "createdAt",
      octet_length(text) AS bytes, CASE WHEN octet_length(text) <= ${SMALL_BYTES} THEN text END AS properties
    FROM json_to_recordset(${JSON.stringify([...groups.values()])}::text::json) AS named (p integer, t text, k text)
    CROSS JOIN LATERAL (
      SELECT group_type_index AS i FROM group_types WHERE project_id = p AND group_type = t LIMIT 1
    ) AS type
    CROSS JOIN LATERAL (
      SELECT properties::text AS text, created_at FROM groups
      WHERE project_id = p AND group_type_index = i AND group_key = k LIMIT 1
    ) AS "group"`
  return new Map(rows.map((row) => [groupName(row.projectId, row.groupType, row.groupKey), row]))
}

async function readLargePersons (transaction: TransactionSql, persons: readonly PersonRow[]): Promise<void> {
  if (persons.length === 0) return
  const rows = await transaction<{ id: number, properties: string }[]>`
    SELECT id, ${transaction.unsafe(OWNED)} AS properties FROM persons WHERE id = ANY (${persons.map(({ id }) => id)}::bigint[])`
  const read = new Map(rows.map(({ id, properties }) => [id, properties]))
  for (const person of persons) person.properties = read.get(person.id) as string
}

async function readLargeGroups (transaction: TransactionSql, groups: readonly GroupRow[]): Promise<void> {
  if (groups.length === 0) return
  const named = groups.map(({ projectId, groupTypeIndex, groupKey }, n) =>
    ({ n, p: projectId, i: groupTypeIndex, k: groupKey }))
  const rows = await transaction<{ n: number, properties: string }[]>`
    SELECT n, properties
    FROM json_to_recordset(${JSON.stringify(named)}::text::json) AS named (n integer, p integer, i integer, k text)
    CROSS JOIN LATERAL (
      SELECT properties::text AS properties FROM groups
      WHERE project_id = p AND group_type_index = i AND group_key = k LIMIT 1
    ) AS "group"`
  for (const { n, properties } of rows) (groups[n] as GroupRow).properties = properties
}

/** Adds the persons whose properties were read. Returns the bytes of these. */
function addPersons (state: PersonsState, persons: FoundRows['persons']): number {
  let read = 0
  for (const { distinctIds, bytes, properties, createdAt, ...row } of new Set(persons.values())) {
    if (properties === null) continue
    const person = { ...row, ...toOwner(properties), createdAt: createdAt.getTime(), mergedInto: null, absorbed: [] }
    state.persons.push(person)
    for (const distinctId of distinctIds) state.loadPerson(distinctId, person)
    read += bytes
  }
  return read
}

/** Adds the groups whose properties were read. Returns the bytes of these. */
function addGroups (state: PersonsState, groups: FoundRows['groups']): number {
  let read = 0
  for (const { bytes, properties, createdAt, ...row } of groups.values()) {
    if (properties === null) continue
    state.addGroup({ ...row, ...toOwner(properties), createdAt: createdAt.getTime() })
    read += bytes
  }
  return read
}

function toOwner (text: string): PropertyOwner {
  const parsed = parseStoredJson(text)
  // Postgres made the list, of two objects.
  const [properties, times] = (Array.isArray(parsed) ? parsed : [parsed]) as [Properties, Record<string, number>?]
  return {
    properties,
    sizeBound: text.length * MAX_BYTES_PER_UNIT,
    isMeasured: false,
    changed: false,
    ...times && { times: new Map(Object.entries(times)) }
  }
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
