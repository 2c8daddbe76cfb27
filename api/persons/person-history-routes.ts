import type { FastifyInstance } from 'fastify'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { COPIED_PROPERTIES } from '../../schema/wire/persons-update.ts'
import { findPersonByDistinctId, findPersonByUuid, personUuid } from '../../platform/persons/person-ids.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { requireScope } from '../../schema/scopes.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import { notFound } from '../http/errors.ts'
import { array, object, type Row, type Value } from '../http/json-schema.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { uuidParams, type UuidParams } from '../http/request-values.ts'

interface PersonStores {
  sql: Sql
  clickhouse: ClickHouse
  now: () => number
}

/** Why a person was found; an exact match comes before those that only begin with what was searched. */
const MATCHED_BY = ['uuid', 'old uuid', 'distinct id', 'email', 'name', 'username', 'beginning of a distinct id'] as const

export type MatchedBy = (typeof MATCHED_BY)[number]

export type PersonMatch = Row<typeof searchSchema>['matches'][number]

/** What is known of how a person came to be what it is. Times are ISO 8601. */
export type PersonHistory = Value<typeof historySchema>

/** Properties that name somebody. */
const NAMES = ['email', 'name', 'username'] as const

const MATCHES = 50
const SHOWN_IDS = 200
/** Ids whose events are read; they travel in the URL. */
const MAX_IDS = 1000
const SHOWN_EVENTS = 50
const SHOWN_PROPERTIES = 5000
/** Of a value that an event set. */
const SHOWN_CHARACTERS = 1000
/** Spans of days that are read one after the other, until there are enough events. */
const SPANS_DAYS = [1, 7, 31, 36_500]
/** A person of few events makes ClickHouse read many of others. */
const LIMITS = 'max_execution_time = 10, max_memory_usage = 1000000000'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const string = { type: 'string' } as const
const time = { type: 'string', format: 'date-time' } as const
const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const

const searchSchema = object({
  matches: array(object({
    by: { type: 'string', enum: MATCHED_BY, description: 'What matched.' },
    uuid: string,
    name: { ...string, description: 'The first of its email, name and username; empty when it has none.' },
    distinct_ids: { type: 'array', items: string, description: 'The first three.' },
    is_identified: { type: 'boolean' },
    created_at: time
  })),
  searched_properties: { type: 'boolean', description: 'False: ClickHouse is unavailable, and only ids were searched.' }
})

const historySchema = object({
  changed_at: { ...timeOrNull, description: 'When anything of the person changed last.' },
  distinct_id_count: { type: 'integer' },
  distinct_ids: array(object({ distinct_id: string, since: { ...timeOrNull, description: 'When it came to this person.' }, is_first: { type: 'boolean' } }), { description: `The newest first, at most ${SHOWN_IDS}.` }),
  events: array(object({ uuid: string, event: string, distinct_id: string, timestamp: time }), { description: `The newest stored events, at most ${SHOWN_EVENTS}.` }),
  properties: array(object({
    name: string, how: { type: 'string', enum: ['$set', '$set_once'] }, uuid: string, event: string, at: time, received_at: time,
    value: { ...string, description: `JSON, cut after ${SHOWN_CHARACTERS} characters.` }
  }), { description: 'Stored events that set properties; for each property the latest $set, or the first $set_once.' })
}, { $id: 'PersonHistory' })

/** Searches persons by anything that names them, and tells how one came to be what it is. */
export async function personHistoryRoutes (app: FastifyInstance, stores: PersonStores): Promise<void> {
  app.addSchema(historySchema)

  app.get<{ Querystring: { search: string } }>('/search', {
    config: { scope: 'person:read' },
    schema: {
      tags: ['persons'],
      summary: 'Search persons',
      description: `By id, distinct id, email, name or username, at most ${MATCHES}: exact matches first, then distinct ids that begin with the text.`,
      querystring: object({ search: { type: 'string', minLength: 1, maxLength: 400 } }),
      response: { 200: searchSchema }
    }
  }, async (request) => await search(stores, accessOf(request).projectId, request.query.search))

  app.get<UuidParams>('/:id/history', {
    config: { scope: 'person:read' },
    schema: {
      tags: ['persons'],
      summary: 'Show the history of a person',
      description: 'Its distinct ids, its newest events, and the stored events that set its properties. Requires the scope event:read, too.',
      params: uuidParams,
      response: { 200: { $ref: 'PersonHistory#' } }
    }
  }, async (request) => {
    const { projectId, scopes } = accessOf(request)
    requireScope(scopes, 'event:read')
    return await readHistory(stores, projectId, request.params.id.toLowerCase())
      .catch((error: unknown) => { throw describeClickHouseError(error, 'which has the events of the person') })
  })
}

interface Found { by: MatchedBy, uuid: string }

/** Exact matches first. While ClickHouse is away, properties are not searched, which is said. */
async function search (
  { sql, clickhouse }: PersonStores, projectId: number, text: string
): Promise<{ matches: PersonMatch[], searched_properties: boolean }> {
  const byProperty = findByName(clickhouse, projectId, text).catch((error: unknown) => {
    if (classifyClickHouseError(error).action !== 'retry') throw error
    return null
  })
  const uuid = text.toLowerCase()
  // Without ClickHouse an id from before a merge is not found.
  const byUuid = UUID.test(text) ? await findPersonByUuid({ sql, clickhouse }, projectId, uuid).catch(() => null) : null
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
  ]
  // Of several reasons the first.
  const first = found.filter(({ uuid }, index) => found.findIndex((each) => each.uuid === uuid) === index)
  return { matches: await describe(sql, projectId, first.slice(0, MATCHES)), searched_properties: named !== null }
}

/** Persons whose email, name or username is the text, in any case. */
async function findByName (clickhouse: ClickHouse, projectId: number, text: string): Promise<Found[]> {
  const value = (name: string): string => `lowerUTF8(JSONExtractString(persons.properties, '${name}'))`
  const cases = NAMES.map((name) => `${value(name)} = lowerUTF8({text: String}), '${name}'`).join(', ')
  return await queryRows<Found>(clickhouse, `
    SELECT toString(person_id) AS uuid, multiIf(${cases}, '') AS by
    FROM persons FINAL WHERE project_id = {project: UInt32} AND by != ''
    ORDER BY created_at DESC LIMIT ${MATCHES} SETTINGS ${LIMITS}`, { project: projectId, text })
}

async function describe (sql: Sql, projectId: number, found: readonly Found[]): Promise<PersonMatch[]> {
  const rows = await describePersons(sql, projectId, found.map(({ uuid }) => uuid))
  // A copy in ClickHouse may be of somebody who is gone.
  return found.flatMap(({ by, uuid }) => rows.filter((row) => row.uuid === uuid).map((row) => ({ by, ...row })))
}

/** The persons of these ids, in any order, as far as they are stored. */
export async function describePersons (sql: Sql, projectId: number, uuids: readonly string[]): Promise<Omit<PersonMatch, 'by'>[]> {
  return await sql<Omit<PersonMatch, 'by'>[]>`
    SELECT uuid, coalesce(nullif(properties->>'email', ''), nullif(properties->>'name', ''), properties->>'username', '') AS name,
      is_identified, created_at, ARRAY(
        SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id LIMIT 3) AS distinct_ids
    FROM persons WHERE project_id = ${projectId} AND uuid = ANY (${[...uuids]}::uuid[])`
}

/** @throws {HttpError} 404; errors of ClickHouse. */
async function readHistory (
  { sql, clickhouse, now }: PersonStores, projectId: number, uuid: string
): Promise<PersonHistory> {
  const [person] = await sql<{ id: string, version: string }[]>`
    SELECT id::text AS id, version::text AS version FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
  if (person === undefined) throw notFound()
  const [ids, [counted]] = await Promise.all([
    sql<{ distinct_id: string, version: string }[]>`
      SELECT distinct_id, version::text AS version FROM person_distinct_ids WHERE person_id = ${person.id}::bigint
      ORDER BY person_distinct_ids.version DESC, distinct_id LIMIT ${MAX_IDS}`,
    sql<[{ count: number }]>`
      SELECT count(*)::integer AS count FROM person_distinct_ids WHERE person_id = ${person.id}::bigint`
  ])
  const uuids = [...new Set([uuid, ...ids.map(({ distinct_id: id }) => personUuid(projectId, id))])].slice(0, MAX_IDS)
  const [events, properties] = await Promise.all([
    readEvents(clickhouse, { projectId, uuids, now: now() }), readSettings(clickhouse, { projectId, uuids })
  ])
  return {
    changed_at: timeOf(person.version),
    distinct_id_count: counted.count,
    distinct_ids: ids.slice(0, SHOWN_IDS).map(({ distinct_id: id, version }) => ({
      distinct_id: id, since: timeOf(version), is_first: personUuid(projectId, id) === uuid
    })),
    events, properties
  }
}

/** Versions are microseconds since 1970; 0 for what was written by hand. */
function timeOf (version: string): string | null {
  return version === '0' ? null : new Date(Number(version) / 1000).toISOString()
}

const iso = (column: string): string => `concat(replaceOne(toString(${column}), ' ', 'T'), 'Z')`

async function readEvents (
  clickhouse: ClickHouse, { projectId, uuids, now }: { projectId: number, uuids: string[], now: number }
): Promise<PersonHistory['events']> {
  for (const days of SPANS_DAYS) {
    const since = new Date(Math.max(0, now - days * 86_400_000)).toISOString().slice(0, 10)
    const rows = await queryRows<PersonHistory['events'][number]>(clickhouse, `
      SELECT toString(events.uuid) AS uuid, event, distinct_id, ${iso('events.timestamp')} AS timestamp
      FROM events PREWHERE person_id IN {uuids: Array(UUID)}
      WHERE project_id = {project: UInt32} AND toDate(events.timestamp) >= {since: Date}
      ORDER BY events.timestamp DESC, uuid LIMIT 1 BY uuid LIMIT ${SHOWN_EVENTS} SETTINGS final = 0, ${LIMITS}`,
    { project: projectId, uuids, since })
    if (rows.length >= SHOWN_EVENTS || days === SPANS_DAYS.at(-1)) return rows
  }
  return []
}

/** Events that change a person; those of the second line never do. */
const CHANGES_PERSON = `(event IN ('$identify', '$create_alias', '$merge_dangerously')
  OR JSONHas(events.properties, '$set') OR JSONHas(events.properties, '$set_once') OR JSONHas(events.properties, '$unset'))
  AND event NOT IN ('$exception', '$$heatmap') AND JSONExtractRaw(events.properties, '$process_person_profile') != 'false'`

/**
 * The events that set properties: the last with `$set`, the first with `$set_once`, in the order of receipt, in which
 * they are applied; also those that did so by the way, by what they say of the browser, the page and the campaign.
 * Events of one request were received at one time, so several may be the last. Persons do not keep these times: only
 * what stored events tell is known.
 */
async function readSettings (
  clickhouse: ClickHouse, { projectId, uuids }: { projectId: number, uuids: string[] }
): Promise<PersonHistory['properties']> {
  const pairs = (how: string): string =>
    `arrayMap(pair -> ('${how}', pair.1, pair.2), JSONExtractKeysAndValuesRaw(events.properties, '${how}'))`
  // What a server says of its system is not copied.
  const copied = `arrayFilter(pair -> has({copied: Array(String)}, pair.1) AND pair.2 != 'null'
    AND NOT (startsWith(pair.1, '$os') AND JSONExtractBool(events.properties, '$is_server')),
    JSONExtractKeysAndValuesRaw(events.properties))`
  const latest = `arrayMap(pair -> ('$set', pair.1, pair.2), ${copied})`
  const initial = `arrayMap(pair -> ('$set_once', concat('$initial_', trimLeft(pair.1, '$')), pair.2), ${copied})`
  return await queryRows<PersonHistory['properties'][number]>(clickhouse, `
    SELECT name, how, uuid, event, at, received_at, value FROM (
      SELECT DISTINCT toString(events.uuid) AS uuid, event, ${iso('events.timestamp')} AS at, ${iso('events.received_at')} AS received_at,
        toUnixTimestamp64Milli(events.received_at) AS received_ms,
        arrayJoin(arrayConcat(${pairs('$set')}, ${pairs('$set_once')}, ${latest}, ${initial})) AS entry,
        entry.1 AS how, entry.2 AS name, substringUTF8(entry.3, 1, ${SHOWN_CHARACTERS}) AS value
      FROM events PREWHERE person_id IN {uuids: Array(UUID)}
      WHERE project_id = {project: UInt32} AND ${CHANGES_PERSON})
    WHERE NOT (how = '$set_once' AND value IN ('', 'null', '""'))
    ORDER BY name, how, received_ms * if(how = '$set', -1, 1), uuid
    LIMIT 5 BY name, how LIMIT ${SHOWN_PROPERTIES} SETTINGS final = 0, ${LIMITS}`,
  { project: projectId, uuids, copied: COPIED_PROPERTIES })
}
