import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../../engines/errors.ts'
import type { NatsOnDemand } from '../dead-letters/nats-on-demand.ts'
import { LiveFeeds } from './live-feeds.ts'
import { count, object, optional, type Value } from '../../http/json-schema.ts'
import { routesOf } from '../../http/routes.ts'

/**
 * Between two signs of life on a feed without events, in milliseconds: proxies end a silent answer after 30 s or more.
 * As often it is checked that the key may still read events.
 */
const HEARTBEAT_MS = 5000

/** Bytes that may wait for a watcher: events beyond that are counted and not kept. */
const MAX_WAITING_BYTES = 262_144

const filter = (description: string) => ({ type: 'string', maxLength: 400, default: '', description }) as const

/** Events of a project as they arrive. */
export async function liveRoutes (
  app: FastifyInstance, { nats }: { nats: Pick<NatsOnDemand, 'get'> }
): Promise<void> {
  const feeds = new LiveFeeds({ connect: nats.get })
  const open = new Set<PassThrough>()
  // A feed never ends by itself, and would keep the process from ending.
  app.addHook('preClose', async () => { for (const stream of open) stream.end() })
  app.addSchema(feedBatchSchema)

  routesOf(app, { tag: 'events', object: 'event' }).get('/events/live', {
    config: { isEndless: true },
    summary: 'Watch events as they arrive',
    description: 'Server-sent events, until the client closes the connection or the key may no longer read events. The data of each is one FeedBatch.',
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

const text = (description: string) => ({ type: 'string', description }) as const

const arrivedEventSchema = object({
  at: { type: 'number', description: 'When it was received, epoch milliseconds.' },
  event: text('As stored; as sent when it was dropped.'),
  distinctId: { type: 'string' },
  uuid: { type: 'string' },
  lib: { type: 'string' },
  libVersion: { type: 'string' },
  key: text('First characters of the key it was sent with.'),
  drop: { type: ['string', 'null'], description: 'Why it was dropped; null when it was accepted.' },
  isQuarantined: { type: 'boolean', description: 'It does not meet its schema and is a dead letter.' },
  sent: text('Its JSON as sent, cut when it is long.'),
  sentCharacters: count('Characters of sent before it was cut; 0 when it is whole.')
})

const feedBatchSchema = object({
  connected: { type: 'boolean', description: 'False while NATS is unavailable: nothing can be seen then.' },
  matched: count('Matching events that arrived since the feed began.'),
  shown: count('Those of them that were sent; the rest exceeded what the client reads.'),
  events: { type: 'array', items: arrivedEventSchema }
}, { $id: 'FeedBatch' })

/** The data of one event of a feed. */
export type FeedBatch = Value<typeof feedBatchSchema>
