import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { INGESTION_WARNINGS, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { array, nullableObject, object, optional, string, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { UUID } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { isoTime } from './receipts/stored-events.ts'

/** Matches of a text besides receipts. The text is an event name, a distinct id, or a uuid. */
export type Lookup = Value<typeof lookupSchema>

/** How far back is looked, in days: who asks where an event is asks within days. */
const DAYS = 7

const SHOWN_EVENTS = 10
const SHOWN_WARNINGS = 20
const SHOWN_PROJECTS = 20

/** Hours of receipt that are read one after the other, until there are enough events of a name. */
const SPANS_HOURS = [1, 24, DAYS * 24]

/** What takes longer is answered in part. */
const LIMITS = "final = 0, max_execution_time = 5, timeout_overflow_mode = 'break', max_memory_usage = 1000000000"

const lookupSchema = object({
  events: array(object({
    uuid: string, distinct_id: string, received_at: time, timestamp: time,
    is_bot: { type: 'boolean', description: 'The user agent says that it is a crawler, a monitor or another program.' }
  }), { description: `The newest stored events of this name, at most ${SHOWN_EVENTS}.` }),
  warnings: array(object({
    reason: { ...string, enum: Object.keys(INGESTION_WARNINGS) }, effect: string, received_at: time,
    event: string, distinct_id: string, uuid: string, value: string
  }), { description: `Cases of ingestion warnings, newest first, at most ${SHOWN_WARNINGS}.` }),
  elsewhere: array(object({ project_id: { type: 'integer' }, what: { type: 'string', enum: ['name', 'distinct id', 'uuid'] } }), { description: 'Matches in other projects that the key can access.' })
}, { $id: 'Lookup' })

/** Matches of a text besides receipts: stored events of this name, warnings, and other projects. */
export async function lookupRoutes (
  app: FastifyInstance, { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse }
): Promise<void> {
  app.addSchema(lookupSchema)
  routesOf(app, { tag: 'events', object: 'event' }).get('/lookup', {
    summary: 'Look up an event name, distinct id or uuid',
    description: `Stored events of this name, warnings that mention it, and other projects of the key that received it, within ${DAYS} days. ` +
      'For a uuid or a distinct id, use receipts.',
    query: object({ text: { type: 'string', minLength: 1, maxLength: 400 } }),
    answer: { $ref: 'Lookup#' }
  }, async ({ query: { text } }, { projectId: project, projectIds }): Promise<Lookup> => {
    const [events, warnings, elsewhere, named] = await Promise.all([
      readEvents(clickhouse, project, text), readWarnings(clickhouse, project, text),
      findElsewhere(clickhouse, { project, projectIds, text }), findNameElsewhere(sql, { project, projectIds, text })
    ]).catch((error: unknown) => { throw describeClickHouseError(error) })
    return { events, warnings, elsewhere: [...elsewhere, ...named] }
  })
}

async function readEvents (clickhouse: ClickHouse, project: number, text: string): Promise<Lookup['events']> {
  for (const hours of SPANS_HOURS) {
    const rows = await queryRows<Omit<Lookup['events'][number], 'is_bot'> & { is_bot: number | boolean }>(clickhouse, `
      SELECT toString(events.uuid) AS uuid, distinct_id, is_bot,
        ${isoTime('events.received_at')} AS received_at, ${isoTime('events.timestamp')} AS timestamp
      FROM events WHERE project_id = {project: UInt32} AND event = {text: String}
        AND events.received_at >= now() - toIntervalHour({hours: UInt32})
      ORDER BY events.received_at DESC, uuid LIMIT 1 BY uuid LIMIT ${SHOWN_EVENTS} SETTINGS ${LIMITS}`, { project, text, hours })
    if (rows.length >= SHOWN_EVENTS || hours === SPANS_HOURS.at(-1)) {
      return rows.map((row) => ({ ...row, is_bot: Boolean(row.is_bot) }))
    }
  }
  return []
}

async function readWarnings (clickhouse: ClickHouse, project: number, text: string): Promise<Lookup['warnings']> {
  return await queryRows<Lookup['warnings'][number]>(clickhouse, `
    SELECT reason, any(effect) AS effect, ${isoTime('sample.received_at')} AS received_at, sample.event AS event,
      sample.distinct_id AS distinct_id, sample.uuid AS uuid, sample.value AS value
    FROM ${WARNINGS_TABLE} ARRAY JOIN samples AS sample
    WHERE project_id = {project: UInt32} AND minute >= now() - toIntervalDay(${DAYS})
      AND (sample.event = {text: String} OR sample.distinct_id = {text: String} OR lower(sample.uuid) = lower({text: String}))
    GROUP BY reason, sample.received_at, sample.event, sample.distinct_id, sample.uuid, sample.value
    ORDER BY sample.received_at DESC, reason LIMIT ${SHOWN_WARNINGS} SETTINGS ${LIMITS}`, { project, text })
}

interface Elsewhere { project: number, projectIds: readonly number[] | null, text: string }

/** Projects with stored events of this uuid or distinct id. */
async function findElsewhere (
  clickhouse: ClickHouse, { project, projectIds, text }: Elsewhere
): Promise<Lookup['elsewhere']> {
  const within = projectIds === null ? '' : 'AND project_id IN {projects: Array(UInt32)}'
  const params = { project, text, ...(projectIds === null ? {} : { projects: [...projectIds] }) }
  const find = async (condition: string, what: 'distinct id' | 'uuid'): Promise<Lookup['elsewhere']> =>
    (await queryRows<{ project_id: number }>(clickhouse, `
      SELECT DISTINCT project_id FROM events
      WHERE ${condition} AND project_id != {project: UInt32} ${within} AND events.received_at >= now() - toIntervalDay(${DAYS})
      LIMIT ${SHOWN_PROJECTS} SETTINGS ${LIMITS}`, params)).map(({ project_id: id }) => ({ project_id: id, what }))
  const byId = await find('distinct_id = {text: String}', 'distinct id')
  return UUID.test(text) ? [...await find('uuid = toUUID({text: String})', 'uuid'), ...byId] : byId
}

/** Projects in which events of this name arrived of late. */
async function findNameElsewhere (sql: Sql, { project, projectIds, text }: Elsewhere): Promise<Lookup['elsewhere']> {
  const rows = await sql<{ project_id: number }[]>`
    SELECT project_id FROM event_definitions
    WHERE name = ${text} AND deleted_at IS NULL AND last_seen_at > now() - ${DAYS} * interval '1 day' AND project_id <> ${project}
      AND ${projectIds === null ? sql`true` : sql`project_id = ANY(${[...projectIds]}::integer[])`}
    ORDER BY last_seen_at DESC LIMIT ${SHOWN_PROJECTS}`
  return rows.map(({ project_id: id }) => ({ project_id: id, what: 'name' as const }))
}

const storedSchema = object({
  stored: nullableObject({
    event: { type: 'string' },
    distinct_id: { type: 'string' },
    timestamp: { type: 'string', format: 'date-time' },
    properties: { type: 'string', description: 'JSON as stored, with all digits of numbers.' },
    is_bot: { type: 'boolean', description: 'The user agent says that it is a crawler, a monitor or another program.' }
  }, 'Null: it is not stored, or not yet.')
})

/** The event as analysts find it. */
type StoredContent = NonNullable<Value<typeof storedSchema>['stored']>

const arrivalsSchema = object({
  first_received_at: { ...timeOrNull, description: 'When the first event was received; null while unknown, even if there are events.' },
  last_event_at: { ...timeOrNull, description: 'Timestamp of the last event, delayed by a few seconds; null without events.' }
})

/** Whether events of a project arrive, and an event as it is stored. */
export async function eventRoutes (
  app: FastifyInstance, { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse }
): Promise<void> {
  const routes = routesOf(app, { tag: 'events', object: 'event' })

  routes.get('/events/arrivals', {
    summary: 'Show when the first and last events arrived', answer: arrivalsSchema,
    description: 'Read from event definitions, which lag by a few seconds.'
  }, async (request, { projectId }) => {
    const [known] = await sql<[{ first: Date | null, last: Date | null }]>`
      SELECT min(created_at) AS first, max(last_seen_at) AS last
      FROM event_definitions WHERE project_id = ${projectId} AND last_seen_at IS NOT NULL AND deleted_at IS NULL`
    const { first, last } = known
    const received = first === null ? null : await readFirstReceived(clickhouse, projectId, first)
    return { last_event_at: last, first_received_at: received }
  })

  routes.get('/events/:uuid', {
    summary: 'Show a stored event', description: 'For an event that is not stored, see its receipt.',
    params: optional({ uuid: { type: 'string', format: 'uuid' } }), answer: storedSchema
  }, async ({ params: { uuid } }, { projectId }) => ({
    stored: await readStored(clickhouse, projectId, uuid.toLowerCase())
  }))
}

/**
 * When the first event of a project was received, ISO 8601: by the minutes of the books, and, as those of an earlier
 * version have none, among the events of the oldest day. Null while ClickHouse does not answer.
 */
async function readFirstReceived (clickhouse: ClickHouse, projectId: number, oldest: Date): Promise<string | null> {
  const [row] = await queryRows<{ at: string | null }>(clickhouse, `
    WITH (SELECT minute FROM ledger_by_source WHERE project_id = {project: UInt32} AND accepted > 0 ORDER BY minute LIMIT 1) AS minute
    SELECT ${isoTime('minOrNull(received)')} AS at FROM (
      SELECT minOrNull(received_at) AS received FROM events
      WHERE project_id = {project: UInt32} AND received_at >= minute AND received_at < minute + toIntervalMinute(1)
      UNION ALL
      SELECT minOrNull(received_at) FROM events
      WHERE project_id = {project: UInt32} AND toDate(events.timestamp) = {day: Date}
    ) SETTINGS final = 0, max_execution_time = 5`, { project: projectId, day: oldest.toISOString().slice(0, 10) }).catch(() => [])
  return row?.at ?? null
}

async function readStored (clickhouse: ClickHouse, projectId: number, uuid: string): Promise<StoredContent | null> {
  const rows = await queryRows<StoredContent>(clickhouse, `
    SELECT event, distinct_id, ${isoTime('events.timestamp')} AS timestamp, properties, is_bot
    FROM events PREWHERE uuid = {uuid: UUID} WHERE project_id = {project: UInt32}
    LIMIT 1 SETTINGS final = 0`, { uuid, project: projectId }).catch((error: unknown) => { throw describeClickHouseError(error) })
  return rows[0] === undefined ? null : { ...rows[0], is_bot: Boolean(rows[0].is_bot) }
}
