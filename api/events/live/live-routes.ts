import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../../engines/errors.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import type { NatsOnDemand } from '../dead-letters/nats-on-demand.ts'
import { LiveFeeds } from './live-feeds.ts'
import { feedBatchSchema } from './live-schema.ts'

/**
 * Between two signs of life on a feed without events, in milliseconds: proxies end a silent answer after 30 s or more.
 * As often it is checked that the key may still read events.
 */
const HEARTBEAT_MS = 5000

/** Bytes that may wait for a watcher: events beyond that are counted and not kept. */
const MAX_WAITING_BYTES = 262_144

const text = (description: string) => ({ type: 'string', maxLength: 400, default: '', description }) as const

/** Events of a project as they arrive, and what becomes of them. */
export async function liveRoutes (
  app: FastifyInstance, { nats, now }: { nats: Pick<NatsOnDemand, 'get'>, now: () => number }
): Promise<void> {
  const feeds = new LiveFeeds({ connect: nats.get, now })
  const open = new Set<PassThrough>()
  // A feed never ends by itself, and would keep the process from ending.
  app.addHook('preClose', async () => { for (const stream of open) stream.end() })
  app.addSchema(feedBatchSchema)

  app.get<{ Querystring: { event: string, distinct_id: string } }>('/events/live', {
    config: { scope: 'event:read', isEndless: true },
    schema: {
      tags: ['events'],
      summary: 'Watch events as they arrive',
      description: 'Server-sent events, until the client closes the connection or the key may no longer read events. The data of each is one FeedBatch.',
      querystring: {
        type: 'object',
        properties: { event: text('Only events of this name.'), distinct_id: text('Only events of this distinct id.') }
      },
      response: { 200: { description: 'Events, and what becomes of them.', content: { 'text/event-stream': { schema: { $ref: 'FeedBatch#' } } } } }
    }
  }, async (request, reply) => {
    const access = accessOf(request)
    const wanted = { project: access.projectId, event: request.query.event, distinctId: request.query.distinct_id }
    if (feeds.isFullFor(wanted)) {
      throw new HttpError(429, 'throttled_error', 'throttled', 'Too many clients watch live events; try again when one of them has left.')
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
      // Whatever is wrong, the client asks again and is told.
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
