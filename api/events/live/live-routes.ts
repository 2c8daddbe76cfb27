import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../../engines/errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Logger } from '../../../platform/logger.ts'
import { optional } from '../../http/json-schema.ts'
import { routesOf } from '../../http/routes.ts'
import { feedBatchSchema } from './feed-batch.ts'
import { createLiveFeeds } from './live-feeds.ts'

/**
 * Between two signs of life on a feed without events, in milliseconds: proxies end a silent answer after 30 s or more.
 * As often it is checked that the key may still read events.
 */
const HEARTBEAT_MS = 5000

/** Bytes that may wait for a watcher: events beyond that are counted and not kept. */
const MAX_WAITING_BYTES = 262_144

const filter = (description: string) => ({ type: 'string', maxLength: 400, default: '', description }) as const

export async function liveRoutes (
  app: FastifyInstance, deps: { clickhouse: ClickHouse, logger: Logger }
): Promise<void> {
  const feeds = createLiveFeeds(deps)
  const open = new Set<PassThrough>()
  // A feed never ends by itself, and would keep the process from ending.
  app.addHook('preClose', async () => { for (const stream of open) stream.end() })
  app.addSchema(feedBatchSchema)

  routesOf(app, { tag: 'events', object: 'event' }).get('/events/live', {
    config: { isEndless: true },
    summary: 'Watch events as they arrive',
    description: 'Stored events within two seconds, and samples of dropped, quarantined and refused ones. Server-sent events, until the client disconnects or the key loses the right to read events. Each has one FeedBatch as data.',
    query: optional({ event: filter('Only events of this name.'), distinct_id: filter('Only events of this distinct id.') }),
    answer: { description: 'Events.', content: { 'text/event-stream': { schema: { $ref: 'FeedBatch#' } } } }
  }, async ({ query }, access, reply) => {
    const wanted = { project: access.projectId, event: query.event, distinctId: query.distinct_id }
    if (feeds.isFullFor(wanted)) {
      throw new HttpError(429, 'throttled_error', 'throttled', 'Too many clients watch live events; try again when one of them has left.')
    }
    const stream = new PassThrough()
    const close = await feeds.open({
      ...wanted,
      isReading: () => stream.writableLength < MAX_WAITING_BYTES,
      send: (batch) => { stream.write(`data: ${batch}\n\n`) }
    })
    const heartbeat = setInterval(() => {
      stream.write(': alive\n\n')
      // Whatever is wrong, the client asks again and gets the error.
      access.recheck().catch(() => stream.end())
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
}
