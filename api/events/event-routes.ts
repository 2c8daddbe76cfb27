import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { nullableObject, object, optional, timeOrNull, type Value } from '../http/json-schema.ts'
import { routesOf } from '../http/routes.ts'
import { isoTime } from './receipts/stored-events.ts'

const storedSchema = object({
  stored: nullableObject({
    event: { type: 'string' },
    distinct_id: { type: 'string' },
    timestamp: { type: 'string', format: 'date-time' },
    properties: { type: 'string', description: 'JSON as stored; numbers keep all digits.' },
    is_bot: { type: 'boolean', description: 'The user agent identifies a crawler, a monitor or another program.' }
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
