/** Persons by their last event, including those known from events only. */
import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import {
  BUDGET_MS, conditionsOf, type Position, PROPERTY_CONDITIONS, readCursor, readDays, readSpans, toCursor
} from '../events/day-spans.ts'
import { isoTime } from '../events/receipts/stored-events.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { array, object, optional, string, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { linkWith } from '../http/pagination.ts'
import { defined } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { describePersons } from './person-history-routes.ts'

const FIRST_SPAN_EVENTS = 50_000

const querySchema = optional({
  property: { ...string, maxLength: 400, description: 'Only persons with this property, or, with `value`, with this value of it.' },
  value: { ...string, maxLength: 4000, description: 'Strings as they are, other values as JSON: `12.5`, `true`.' },
  limit: { type: 'integer', minimum: 1, maximum: 200, default: 50, description: 'Persons per page.' },
  after: { ...string, maxLength: 4000, description: 'Cursor of the page; taken from a `next` link.' }
}, { dependencies: { value: ['property'] } })

type SeenQuery = Value<typeof querySchema>

const answerSchema = object({
  results: array(object({
    uuid: { ...string, format: 'uuid', description: 'The person_id of events, merges included.' },
    name: { ...string, description: 'Email, else name, else username, else the distinct id of its last event.' },
    distinct_id: { ...string, description: 'Distinct id of its last event.' },
    last_seen: { ...time, description: 'Timestamp of its last event.' },
    is_known: { type: 'boolean', description: 'false: no properties and never identified, so no person is stored.' },
    is_identified: { type: 'boolean' }
  })),
  next: { type: ['string', 'null'], description: 'Link to the next page, of persons seen earlier.' },
  searched_from: { ...timeOrNull, description: `Persons last seen before this time are omitted, because reading their events took longer than ${BUDGET_MS / 1000} s. Null: the list is complete.` },
  complete_through: { ...timeOrNull, description: 'The list includes every event received before this time. Null: unknown.' }
})

interface SeenPerson { uuid: string, distinct_id: string, last_seen: string }

interface SeenDeps { sql: Sql, clickhouse: ClickHouse, publicUrl: string }

export async function seenPersonRoutes (app: FastifyInstance, { sql, clickhouse, publicUrl }: SeenDeps): Promise<void> {
  routesOf(app, { tag: 'persons', object: 'person' }).get('/seen', {
    summary: 'List persons by their last event', query: querySchema, answer: answerSchema,
    description: 'All persons with events, last seen first. Each page reads the events since its last person, newest days first. Also requires the scope event:read.'
  }, async (request, access) => {
    const { projectId } = access
    access.requireScope('event:read')
    try {
      const completeThrough = await readCompleteThrough(clickhouse)
      const { persons, searchedFrom } = await readSeen(clickhouse, projectId, request.query)
      const results = persons.slice(0, request.query.limit)
      const last = persons.length > results.length ? results.at(-1) : undefined
      const after = last && toCursor(ORDER, { at: Date.parse(last.last_seen), uuid: last.uuid })
      const stored = await describePersons(sql, projectId, results.map(({ uuid }) => uuid))
      const known = new Map(stored.map((each) => [each.uuid, each]))
      return {
        results: results.map((person) => {
          const { name = '', is_identified: isIdentified = false } = known.get(person.uuid) ?? {}
          return {
            ...person, name: name === '' ? person.distinct_id : name, is_known: known.has(person.uuid), is_identified: isIdentified
          }
        }),
        next: after === undefined ? null : linkWith(request, publicUrl, { after }),
        searched_from: searchedFrom === undefined ? null : new Date(searchedFrom),
        complete_through: completeThrough
      }
    } catch (error) {
      throw describeClickHouseError(error, 'which has the events')
    }
  })
}

const ORDER = 'last seen persons'

/**
 * Reads one person more than the page has. Whoever has an event in the days that were read has their last one there, so
 * those found in them come before all others.
 */
async function readSeen (
  clickhouse: ClickHouse, project: number, query: SeenQuery
): Promise<{ persons: SeenPerson[], searchedFrom: number | undefined }> {
  const startedAt = performance.now()
  const before = readCursor(ORDER, query.after)
  const days = await readDays(clickhouse, { project })
  let persons: SeenPerson[] = []
  const searchedFrom = await readSpans({ days, wanted: FIRST_SPAN_EVENTS, startedAt }, async (from, seconds) => {
    persons = await readLastSeen(clickhouse, { ...query, project, before, from, seconds })
    return persons.length > query.limit
  })
  return { persons, searchedFrom }
}

interface LastSeenQuery extends SeenQuery {
  project: number
  before: Position | undefined
  from: number | undefined
  seconds: number
}

const ofPersons = (condition: string): string =>
  `person_id IN (SELECT person_id FROM persons WHERE project_id = {project: UInt32} AND ${condition})`
const CONDITIONS = {
  property: ofPersons(PROPERTY_CONDITIONS.property),
  value: ofPersons(PROPERTY_CONDITIONS.value),
  from: 'seen.timestamp >= fromUnixTimestamp64Milli({from: Int64})'
}

/** Persons with an event since `from` and none since the position. */
async function readLastSeen (
  clickhouse: ClickHouse, { project, property, value, limit, before, from, seconds }: LastSeenQuery
): Promise<SeenPerson[]> {
  const text = property === undefined ? undefined : value
  const params = defined({ project, limit: limit + 1, property, value: text, from, ...before })
  const having = before === undefined
    ? ''
    : 'HAVING (max(seen.timestamp), person_id) < (fromUnixTimestamp64Milli({at: Int64}), {uuid: UUID})'
  return await queryRows<SeenPerson>(clickhouse, `
    SELECT toString(person_id) AS uuid, argMax(distinct_id, seen.timestamp) AS distinct_id,
      ${isoTime('max(seen.timestamp)')} AS last_seen
    FROM events_with_person AS seen WHERE project_id = {project: UInt32} ${conditionsOf(CONDITIONS, params)}
    GROUP BY person_id ${having} ORDER BY max(seen.timestamp) DESC, person_id DESC LIMIT {limit: UInt32}
    SETTINGS final = 1, max_execution_time = ${seconds}, max_memory_usage = 2000000000`, params)
}
