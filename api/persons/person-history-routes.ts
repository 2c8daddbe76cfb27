import type { FastifyInstance } from 'fastify'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import { chunksOf, type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { findPersonByDistinctId, findPersonByUuid } from './find-person.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { personUuid, toDistinctId } from '../../schema/wire/identity.ts'
import { notFound } from '../http/answer-errors.ts'
import { array, object, type Row, string, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { uuidParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { mergeSchema, NAMES_AN_ID, readMerges } from './repair-routes.ts'

interface PersonStores {
  sql: Sql
  clickhouse: ClickHouse
}

/** Why a person was found, the closest matches first. */
const MATCHED_BY = [
  'uuid', 'old uuid', 'distinct id', 'email', 'name', 'username', 'beginning of a distinct id', 'part of the email', 'part of the name', 'part of the username'
] as const

export type MatchedBy = (typeof MATCHED_BY)[number]

export type PersonMatch = Row<typeof searchSchema>['matches'][number]

/** How the distinct ids of a person came to it. Times are ISO 8601. */
export type PersonHistory = Value<typeof historySchema>

const NAMES = ['email', 'name', 'username'] as const

const MATCHES = 50
/** Copies in ClickHouse may be of names that persons no longer have. */
const CANDIDATES = 10 * MATCHES
const SHOWN_IDS = 200
/** Distinct ids whose first event is looked for. */
const MAX_IDS = 10_000
/** A person of few events makes ClickHouse read many of others. */
const LIMITS = 'max_execution_time = 10, max_memory_usage = 1000000000'

const searchSchema = object({
  matches: array(object({
    by: { type: 'string', enum: MATCHED_BY, description: 'Field that matched.' },
    uuid: string,
    name: { ...string, description: 'Email, else name, else username; empty without any of them.' },
    distinct_ids: { type: 'array', items: string, description: 'The first three.' },
    is_identified: { type: 'boolean' },
    created_at: time
  })),
  searched_properties: { type: 'boolean', description: 'false: ClickHouse is unavailable, so only ids were searched.' }
})

const historySchema = object({
  first_seen: { ...time, description: 'Time of the first event of the person, whenever it arrived. Without ClickHouse: `created_at`.' },
  changed_at: { ...timeOrNull, description: 'Last change of the person.' },
  distinct_id_count: { type: 'integer' },
  distinct_ids: array(object({ distinct_id: string, since: { ...timeOrNull, description: 'When it was assigned to this person.' }, is_first: { type: 'boolean' } }), { description: `Newest first, at most ${SHOWN_IDS}.` }),
  merges: { type: ['array', 'null'], items: mergeSchema, description: 'Events that requested a merge with one of these distinct ids, newest first, including those without effect. Null: ClickHouse is unavailable.' }
}, { $id: 'PersonHistory' })

/** Searches persons by anything that names them, and tells how the distinct ids of one came to it. */
export async function personHistoryRoutes (app: FastifyInstance, stores: PersonStores): Promise<void> {
  const routes = routesOf(app, { tag: 'persons', object: 'person' })
  app.addSchema(historySchema)

  routes.get('/search', {
    summary: 'Search persons',
    description: `By id, distinct id, email, name or username, in any case, at most ${MATCHES}: exact matches first, then distinct ids that begin with the text, then parts of emails and names.`,
    query: object({ search: { type: 'string', minLength: 1, maxLength: 400 } }), answer: searchSchema
  }, async ({ query }, { projectId }) => await search(stores, projectId, query.search))

  routes.get('/:id/history', {
    summary: 'Show the history of a person', description: 'Its distinct ids, when a merge assigned each, and the events that requested merges.',
    params: uuidParams, answer: { $ref: 'PersonHistory#' }
  }, async ({ params: { id } }, { projectId }) => await readHistory(stores, projectId, id.toLowerCase()))
}

interface Found { by: MatchedBy, uuid: string }

/** ClickHouse is unavailable. */
function nullIfAway (error: unknown): null {
  if (classifyClickHouseError(error).action !== 'retry') throw error
  return null
}

/** Exact matches first. While ClickHouse is away, properties are not searched, which is said. */
async function search (
  { sql, clickhouse }: PersonStores, projectId: number, text: string
): Promise<{ matches: PersonMatch[], searched_properties: boolean }> {
  const byProperty = findByName({ sql, clickhouse }, projectId, text).catch(nullIfAway)
  const uuid = text.toLowerCase()
  // Without ClickHouse an id from before a merge is not found.
  const byUuid = await findPersonByUuid({ sql, clickhouse }, projectId, uuid).catch(() => null)
  const byId = await findPersonByDistinctId(sql, projectId, text)
  const beginning = await sql<{ uuid: string }[]>`
    SELECT uuid FROM persons WHERE project_id = ${projectId} AND id IN (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND starts_with(distinct_id, ${toDistinctId(text)}))
    ORDER BY id DESC LIMIT ${MATCHES}`
  const named = await byProperty
  const found: Found[] = [
    ...(byUuid === null ? [] : [{ by: byUuid === uuid ? 'uuid' as const : 'old uuid' as const, uuid: byUuid }]),
    ...(byId === null ? [] : [{ by: 'distinct id' as const, uuid: byId }]),
    ...named ?? [],
    ...beginning.map(({ uuid }) => ({ by: 'beginning of a distinct id' as const, uuid }))
  ].sort((one, other) => MATCHED_BY.indexOf(one.by) - MATCHED_BY.indexOf(other.by))
  // Of several reasons the first.
  const first = found.filter(({ uuid }, index) => found.findIndex((each) => each.uuid === uuid) === index)
  const shown = first.slice(0, MATCHES)
  const rows = await describePersons(sql, projectId, shown.map(({ uuid }) => uuid))
  // A copy in ClickHouse may be of somebody who is gone.
  const matches = shown.flatMap(({ by, uuid }) =>
    rows.filter((row) => row.uuid === uuid).map((row) => ({ by, ...row })))
  return { matches, searched_properties: named !== null }
}

/** Persons whose email, name or username has the text in it, in any case; whole matches first, then the newest. */
async function findByName ({ sql, clickhouse }: PersonStores, projectId: number, text: string): Promise<Found[]> {
  const candidates = await queryRows<{ uuid: string }>(clickhouse, `
    WITH lowerUTF8({text: String}) AS wanted
    SELECT toString(person_id) AS uuid FROM persons WHERE project_id = {project: UInt32} AND position(names, wanted) > 0
    ORDER BY position(names, concat('\n', wanted, '\n')) > 0 DESC, created_at DESC LIMIT ${CANDIDATES} SETTINGS ${LIMITS}`, { project: projectId, text })
  const uuids = [...new Set(candidates.map(({ uuid }) => uuid))]
  const stored = await sql<{ uuid: string, names: (string | null)[] }[]>`
    SELECT uuid, ARRAY[properties->>'email', properties->>'name', properties->>'username'] AS names
    FROM persons WHERE project_id = ${projectId} AND uuid = ANY (${uuids}::uuid[])`
  const wanted = text.toLowerCase()
  const namesOf = new Map(stored.map(({ uuid, names }) => [uuid, names.map((name) => name?.toLowerCase() ?? '')]))
  return uuids.flatMap((uuid): Found[] => {
    const names = namesOf.get(uuid) ?? []
    const exact = NAMES[names.indexOf(wanted)]
    const part = NAMES[names.findIndex((name) => name.includes(wanted))]
    return exact !== undefined ? [{ by: exact, uuid }] : part !== undefined ? [{ by: `part of the ${part}`, uuid }] : []
  })
}

export async function describePersons (sql: Sql, projectId: number, uuids: readonly string[]): Promise<Omit<PersonMatch, 'by'>[]> {
  return await sql<Omit<PersonMatch, 'by'>[]>`
    SELECT uuid, coalesce(nullif(properties->>'email', ''), nullif(properties->>'name', ''), properties->>'username', '') AS name,
      is_identified, created_at, ARRAY(
        SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id LIMIT 3) AS distinct_ids
    FROM persons WHERE project_id = ${projectId} AND uuid = ANY (${[...uuids]}::uuid[])`
}

async function readHistory (stores: PersonStores, projectId: number, uuid: string): Promise<PersonHistory> {
  const { sql, clickhouse } = stores
  const [person] = await sql<{ id: string, version: string, created_at: Date }[]>`
    SELECT id::text AS id, version::text AS version, created_at FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
  if (person === undefined) throw notFound()
  const [all, [counted]] = await Promise.all([
    sql<{ distinct_id: string, version: string }[]>`
      SELECT distinct_id, version::text AS version FROM person_distinct_ids WHERE person_id = ${person.id}::bigint
      ORDER BY person_distinct_ids.version DESC, distinct_id LIMIT ${MAX_IDS}`,
    sql<[{ count: number }]>`
      SELECT count(*)::integer AS count FROM person_distinct_ids WHERE person_id = ${person.id}::bigint`
  ])
  const ids = all.slice(0, SHOWN_IDS)
  const [merges, first] = await Promise.all([
    readMerges(stores, projectId, NAMES_AN_ID, { ids: ids.map(({ distinct_id: id }) => id) }).catch(nullIfAway),
    readFirstEvent(clickhouse, projectId, all.map(({ distinct_id: id }) => id)).catch(nullIfAway)
  ])
  // The event that made the person known may have been removed by retention.
  const firstSeen = first === null || first > person.created_at ? person.created_at : first
  return {
    merges,
    first_seen: firstSeen.toISOString(),
    changed_at: timeOf(person.version),
    distinct_id_count: counted.count,
    distinct_ids: ids.map(({ distinct_id: id, version }) => ({
      distinct_id: id, since: timeOf(version), is_first: personUuid(projectId, id) === uuid
    }))
  }
}

/** Null: none of these ids has an event. */
async function readFirstEvent (clickhouse: ClickHouse, project: number, ids: readonly string[]): Promise<Date | null> {
  let first = Infinity
  for (const some of chunksOf(ids)) {
    const [row] = await queryRows<{ at: number, events: number }>(clickhouse, `
      SELECT toFloat64(toUnixTimestamp64Milli(min(timestamp))) AS at, count() > 0 AS events
      FROM events WHERE project_id = {project: UInt32} AND distinct_id IN {ids: Array(String)} SETTINGS ${LIMITS}`, { project, ids: some })
    if (row !== undefined && row.events !== 0) first = Math.min(first, row.at)
  }
  return first === Infinity ? null : new Date(first)
}

/** Versions are microseconds since 1970; 0 for what was written by hand. */
function timeOf (version: string): string | null {
  return version === '0' ? null : new Date(Number(version) / 1000).toISOString()
}
