/** Stored events of a project, newest first, in spans of days, each several times as large as the one before. */
import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { array, object, optional, string, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { linkWith } from '../http/pagination.ts'
import { defined } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import {
  BUDGET_MS, conditionsOf, FIRST_UUID, type Position, PROPERTY_CONDITIONS, readCursor, readDays, readSpans, readTime,
  toCursor
} from './day-spans.ts'
import { isoTime } from './receipts/stored-events.ts'

const listedEventSchema = object({
  uuid: { ...string, format: 'uuid' },
  event: string,
  distinct_id: string,
  person_id: { ...string, format: 'uuid', description: 'Current person of the event, after merges.' },
  timestamp: { ...time, description: 'Time of the event.' },
  received_at: time,
  place: { ...string, description: 'Page URL, else screen name; empty without either.' },
  lib: string,
  lib_version: string,
  is_bot: { type: 'boolean', description: 'The user agent identifies a crawler, a monitor or another program.' }
}, { $id: 'ListedEvent' })

const eventPageSchema = object({
  results: array({ $ref: 'ListedEvent#' }),
  next: { type: ['string', 'null'], description: 'Link to the next page of older events; null on the last page.' },
  searched_from: { ...timeOrNull, description: `Set if the search stopped after ${BUDGET_MS / 1000} s before the page was full: events from this time on were searched; \`next\` continues with earlier ones.` },
  complete_through: { ...timeOrNull, description: 'The list includes every event received before this time. Null: unknown.' }
})

type ListedEvent = Value<typeof listedEventSchema>

const eventListQuerySchema = optional({
  event: { ...string, maxLength: 400, description: 'Only events of this name.' },
  distinct_id: { ...string, maxLength: 400, description: 'Only events of this distinct id.' },
  person: { ...string, format: 'uuid', description: 'Only events of the person with this id; ids from before a merge work too.' },
  property: { ...string, maxLength: 400, description: 'Only events with this property, or, with `value`, with this value of it.' },
  value: { ...string, maxLength: 4000, description: 'Strings as they are, other values as JSON: `12.5`, `true`.' },
  group_type: { ...string, maxLength: 400, description: 'With `group_key`: only events of this group.' },
  group_key: { ...string, maxLength: 400 },
  from: { ...time, description: 'Events with a timestamp at or after this time.' },
  to: { ...time, description: 'Events with a timestamp before this time.' },
  limit: { type: 'integer', minimum: 1, maximum: 200, default: 50, description: 'Events per page.' },
  after: { ...string, maxLength: 4000, description: 'Cursor of the page; taken from a `next` link.' }
}, { dependencies: { value: ['property'], group_type: ['group_key'], group_key: ['group_type'] } })

type EventListQuery = Value<typeof eventListQuerySchema>

export async function eventListRoutes (
  app: FastifyInstance, { clickhouse, publicUrl }: { clickhouse: ClickHouse, publicUrl: string }
): Promise<void> {
  app.addSchema(listedEventSchema)
  routesOf(app, { tag: 'events', object: 'event' }).get('/events', {
    summary: 'List stored events', query: eventListQuerySchema, answer: eventPageSchema,
    description: 'Newest first by event time, each event once. Properties are omitted; see `/events/<uuid>`.'
  }, async (request, { projectId }) => {
    try {
      // Before the events: whatever it covers is among them.
      const completeThrough = await readCompleteThrough(clickhouse)
      const { results, after, searchedFrom } = await listEvents(clickhouse, projectId, request.query)
      return {
        results,
        next: after === undefined ? null : linkWith(request, publicUrl, { after }),
        searched_from: searchedFrom === null ? null : new Date(searchedFrom),
        complete_through: completeThrough
      }
    } catch (error) {
      throw describeClickHouseError(error, 'which has the events')
    }
  })
}

export interface EventList {
  results: ListedEvent[]
  /** Cursor of the next page; undefined on the last one. */
  after: string | undefined
  /** Epoch milliseconds; null: the page is full, or the period was read to its end. */
  searchedFrom: number | null
}

/** Events of the first span that is read when only some of them are wanted. */
const FIRST_SPAN_EVENTS = 200_000

/**
 * Reads a page. Each event counts once, whether its copies are merged or not.
 *
 * @throws {HttpError} 400 for a cursor of another list; errors of ClickHouse, such as a timeout in the first span.
 */
export async function listEvents (
  clickhouse: ClickHouse, projectId: number, query: EventListQuery
): Promise<EventList> {
  const startedAt = performance.now()
  let before = readPosition(query)
  const from = readTime(query.from)
  const person = query.person === undefined ? undefined : await findCurrentPerson(clickhouse, projectId, query.person)
  const days = await readDays(clickhouse, { project: projectId, event: query.event, from, to: before?.at })
  const isSelective = [query.distinct_id, person, query.property, query.group_type].some((each) => each !== undefined)
  const found: Row[] = []
  const wanted = isSelective ? FIRST_SPAN_EVENTS : query.limit + 1
  const searchedFrom = await readSpans({ days, wanted, startedAt }, async (begin = from, seconds) => {
    const limit = query.limit + 1 - found.length
    const span = { ...query, project: projectId, person, before, from: begin, limit, seconds }
    found.push(...await readSpan(clickhouse, span))
    if (begin !== undefined) before = { at: begin, uuid: FIRST_UUID }
    return found.length > query.limit
  })
  if (searchedFrom !== undefined) {
    const results = await withPersons(clickhouse, projectId, found)
    return { results, after: toCursor(ORDER, { at: searchedFrom, uuid: FIRST_UUID }), searchedFrom }
  }
  const results = await withPersons(clickhouse, projectId, found.slice(0, query.limit))
  const last = found.length > query.limit ? results.at(-1) : undefined
  const after = last && toCursor(ORDER, { at: Date.parse(last.timestamp), uuid: last.uuid })
  return { results, after, searchedFrom: null }
}

const ORDER = 'newest events'

function readPosition ({ after, to }: EventListQuery): Position | undefined {
  const end = readTime(to)
  return readCursor(ORDER, after) ?? (end === undefined ? undefined : { at: end, uuid: FIRST_UUID })
}

/** The person that this one was merged into; itself if it was not. */
async function findCurrentPerson (clickhouse: ClickHouse, project: number, person: string): Promise<string> {
  return (await readOverrides(clickhouse, project, [person])).get(person.toLowerCase()) ?? person
}

async function readOverrides (
  clickhouse: ClickHouse, project: number, ids: readonly string[]
): Promise<Map<string, string>> {
  const rows = await queryRows<{ old: string, now: string }>(clickhouse, `
    SELECT toString(old_person_id) AS old, toString(person_id) AS now FROM person_overrides
    WHERE project_id = {project: UInt32} AND old_person_id IN {ids: Array(UUID)} SETTINGS final = 1`, { project, ids })
  return new Map(rows.map(({ old, now }) => [old, now]))
}

type Row = Omit<ListedEvent, 'is_bot'> & { is_bot: number | boolean }

interface Span extends Omit<EventListQuery, 'person' | 'from' | 'to' | 'after'> {
  project: number
  person: string | undefined
  from: number | undefined
  before: Position | undefined
  seconds: number
}

/** Conditions by the part of the span that they need. */
const CONDITIONS = {
  event: 'event = {event: String}',
  distinct_id: 'distinct_id = {distinct_id: String}',
  person: `(events.person_id = {person: UUID} OR events.person_id IN (
    SELECT old_person_id FROM person_overrides WHERE project_id = {project: UInt32} AND person_id = {person: UUID}))`,
  ...PROPERTY_CONDITIONS,
  group_type: 'groups[{group_type: String}] = {group_key: String}',
  from: 'events.timestamp >= fromUnixTimestamp64Milli({from: Int64})',
  at: '(events.timestamp, events.uuid) < (fromUnixTimestamp64Milli({at: Int64}), {uuid: UUID})'
}

async function readSpan (clickhouse: ClickHouse, { before, seconds, ...of }: Span): Promise<Row[]> {
  const value = of.property === undefined ? undefined : of.value
  const params = defined({ ...of, value, group_key: of.group_key ?? '', ...before })
  return await queryRows<Row>(clickhouse, `
    SELECT toString(events.uuid) AS uuid, event, distinct_id, toString(events.person_id) AS person_id,
      ${isoTime('events.timestamp')} AS timestamp, ${isoTime('events.received_at')} AS received_at, if(current_url != '', current_url, screen_name) AS place, lib, lib_version, is_bot
    FROM events WHERE project_id = {project: UInt32} ${conditionsOf(CONDITIONS, params)}
    ORDER BY events.timestamp DESC, events.uuid DESC LIMIT {limit: UInt32}
    SETTINGS final = 1, max_execution_time = ${seconds}, max_memory_usage = 1000000000`, params)
}

async function withPersons (clickhouse: ClickHouse, project: number, rows: readonly Row[]): Promise<ListedEvent[]> {
  if (rows.length === 0) return []
  const now = await readOverrides(clickhouse, project, rows.map(({ person_id: id }) => id))
  return rows.map(({ person_id: id, is_bot: isBot, ...row }) =>
    ({ ...row, person_id: now.get(id) ?? id, is_bot: Boolean(isBot) }))
}
