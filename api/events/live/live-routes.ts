import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from '../../../platform/clickhouse/describe-clickhouse-error.ts'
import { HttpError } from '../../../engines/errors.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { LiveFeeds } from './live-feeds.ts'
import { requireProject, type SessionOptions } from '../../../console/server/session-routes.ts'

export interface EventRoutesOptions extends Pick<SessionOptions, 'keys' | 'sessions' | 'sql'> {
  clickhouse: ClickHouse
  nats: { get: () => Promise<NatsConnection> }
  now: () => number
}

/**
 * Between two signs of life on a feed without events, in milliseconds: proxies end a silent answer after 30 s or more.
 * As often it is checked that the session goes on.
 */
const HEARTBEAT_MS = 5000

/** Bytes that may wait for a watcher: events beyond that are counted and not kept. */
const MAX_WAITING_BYTES = 262_144

/** The event as analysts find it. */
export interface StoredContent {
  event: string
  distinct_id: string
  timestamp: string
  properties: string
  /** Sent by an automated browser, as its user agent says. */
  is_bot: boolean
}

const project = { project_id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } as const
const text = { type: 'string', maxLength: 400, default: '' } as const
const liveSchema = {
  hide: true,
  params: { type: 'object', properties: project },
  querystring: { type: 'object', properties: { event: text, distinct_id: text } }
} as const

/** What the screen of live events reads: the feed, and an event as it is stored. */
export async function eventRoutes (app: FastifyInstance, options: EventRoutesOptions): Promise<void> {
  const feeds = new LiveFeeds({ connect: options.nats.get, now: options.now })
  const open = new Set<PassThrough>()
  // A feed never ends by itself, and would keep the process from ending.
  app.addHook('preClose', async () => { for (const stream of open) stream.end() })

  app.get<{ Params: { project_id: number }, Querystring: { event: string, distinct_id: string } }>(
    '/console/data/projects/:project_id/live', { schema: liveSchema, config: { isEndless: true } }, async (request, reply) => {
      const { project_id: projectId } = request.params
      await requireProject(request, { projectId, scope: 'event:read' }, options)
      const wanted = { project: projectId, event: request.query.event, distinctId: request.query.distinct_id }
      if (feeds.isFullFor(wanted)) {
        throw new HttpError(429, 'throttled_error', 'throttled', 'Too many people watch live events now; try again when one of them has left.')
      }
      const stream = new PassThrough()
      const close = await feeds.open({
        ...wanted,
        isReading: () => stream.writableLength < MAX_WAITING_BYTES,
        send: (batch) => { stream.write(`data: ${batch}\n\n`) }
      }).catch((cause: unknown) => {
        throw new HttpError(503, 'server_error', 'stream_unavailable',
          'Live events come through NATS, which is unavailable; try again later.', { cause, action: 'retry' })
      })
      const heartbeat = setInterval(() => {
        stream.write(': alive\n\n')
        // Whatever is wrong, the page asks again and is told.
        requireProject(request, { projectId, scope: 'event:read' }, options).catch(() => stream.end())
      }, HEARTBEAT_MS)
      open.add(stream)
      stream.once('close', () => {
        open.delete(stream)
        clearInterval(heartbeat)
        close()
      })
      // The client sees at once that it is connected.
      stream.write(': watching\n\n')
      // nginx passes it on as it comes, whatever its settings.
      return await reply.type('text/event-stream; charset=utf-8').header('x-accel-buffering', 'no').send(stream)
    })

  app.get<{ Params: { project_id: number } }>('/console/data/projects/:project_id/arrivals', {
    schema: { hide: true, params: { type: 'object', properties: project } }
  }, async (request) => {
    const { project_id: projectId } = request.params
    await requireProject(request, { projectId, scope: 'event:read' }, options)
    // What came is told from the definitions, which follow the events by some seconds, and not from a scan of them.
    const [known] = await options.sql<[{ first: Date | null, last: Date | null }]>`
      SELECT min(created_at) AS first, max(last_seen_at) AS last
      FROM event_definitions WHERE project_id = ${projectId} AND last_seen_at IS NOT NULL AND deleted_at IS NULL`
    const { first, last } = known
    const received = first === null ? null : await readFirstReceived(options.clickhouse, projectId, first)
    return { last_event_at: last, first_received_at: received }
  })

  app.get<{ Params: { project_id: number, uuid: string } }>('/console/data/projects/:project_id/events/:uuid', {
    schema: { hide: true, params: { type: 'object', properties: { ...project, uuid: { type: 'string', format: 'uuid' } } } }
  }, async (request) => {
    const { project_id: projectId, uuid } = request.params
    await requireProject(request, { projectId, scope: 'event:read' }, options)
    return { stored: await readStored(options.clickhouse, projectId, uuid.toLowerCase()) }
  })
}

/**
 * When the first event of a project was received, ISO 8601: by the minutes of the books, and, as those of an earlier
 * version have none, among the events of the oldest day. Null while ClickHouse does not answer.
 */
async function readFirstReceived (clickhouse: ClickHouse, projectId: number, oldest: Date): Promise<string | null> {
  const [row] = await queryRows<{ at: string | null }>(clickhouse, `
    WITH (SELECT minute FROM ledger_by_source WHERE project_id = {project: UInt32} AND accepted > 0 ORDER BY minute LIMIT 1) AS minute
    SELECT concat(replaceOne(toString(minOrNull(received)), ' ', 'T'), 'Z') AS at FROM (
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
    SELECT event, distinct_id, concat(replaceOne(toString(events.timestamp), ' ', 'T'), 'Z') AS timestamp, properties, is_bot
    FROM events PREWHERE uuid = {uuid: UUID} WHERE project_id = {project: UInt32}
    LIMIT 1 SETTINGS final = 0`, { uuid, project: projectId }).catch((error: unknown) => { throw describeClickHouseError(error) })
  return rows[0] === undefined ? null : { ...rows[0], is_bot: Boolean(rows[0].is_bot) }
}
