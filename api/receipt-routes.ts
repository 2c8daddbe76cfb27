import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import type { NatsConnection } from '../platform/nats/connect-nats.ts'
import { findReceipt, type Receipt } from '../platform/find-receipt.ts'
import { HttpError } from '../platform/errors.ts'
import type { NatsOnDemand } from './dead-letters/nats-on-demand.ts'
import { describeClickHouseError } from './http/errors.ts'
import { accessOf } from './http/personal-key-access.ts'

const time = { type: 'string', format: 'date-time' } as const
const text = { type: 'string' } as const

/** An object that is there with one fate only. */
function only (fate: string, properties: Record<string, object>): object {
  return { type: ['object', 'null'], description: `With fate ${fate}, else null.`, properties, required: Object.keys(properties) }
}

const receiptSchema = {
  $id: 'Receipt',
  type: 'object',
  required: ['uuid', 'fate', 'stored', 'dead_letter', 'dropped', 'messages_waiting'],
  properties: {
    uuid: { ...text, format: 'uuid' },
    fate: {
      ...text,
      enum: ['stored', 'dead_letter', 'dropped', 'not_found'],
      description: 'not_found: on its way, dropped without a sample, deleted, or never received.'
    },
    stored: only('stored', { event: text, distinct_id: text, timestamp: time, received_at: time, inserted_at: time }),
    dead_letter: only('dead_letter', { id: { type: 'integer' }, stage: text, reason: text, time, replayable: { type: 'boolean' } }),
    dropped: only('dropped', { reason: text, minute: time }),
    messages_waiting: {
      type: ['integer', 'null'],
      description: 'With fate not_found: messages of all projects in the stream, which may hold the event. Else null.'
    }
  }
} as const

/** Where an event of the project is. */
export async function receiptRoutes (
  app: FastifyInstance, deps: { clickhouse: ClickHouse, nats: NatsOnDemand }
): Promise<void> {
  app.addSchema(receiptSchema)
  app.get<{ Params: { uuid: string } }>('/:uuid/receipt', {
    config: { scope: 'event:read' },
    schema: {
      tags: ['events'],
      summary: 'Find out what became of an event',
      params: { type: 'object', properties: { uuid: { type: 'string', format: 'uuid' } } },
      response: { 200: { $ref: 'Receipt#' } }
    }
  }, async (request) => {
    const uuid = request.params.uuid.toLowerCase()
    const query = { projectId: accessOf(request).projectId, uuid }
    const receipt = await findReceipt(query, {
      clickhouse: deps.clickhouse, nats: async (ask) => await askNats(deps.nats, ask)
    }).catch((error: unknown) => { throw describeClickHouseError(error) })
    return describe(uuid, receipt)
  })
}

async function askNats<T> (nats: NatsOnDemand, ask: (connection: NatsConnection) => Promise<T>): Promise<T> {
  try {
    return await ask(await nats.get())
  } catch (cause) {
    throw new HttpError(503, 'server_error', 'stream_unavailable',
      'The event is not stored, and NATS, where it may wait, is unavailable; try again later.', { cause, action: 'retry' })
  }
}

function describe (uuid: string, receipt: Receipt): object {
  const answer = { uuid, fate: receipt.fate, stored: null, dead_letter: null, dropped: null, messages_waiting: null }
  switch (receipt.fate) {
    case 'stored': {
      const { event, distinctId, timestamp, receivedAt, insertedAt } = receipt.stored
      const times = { timestamp, received_at: receivedAt, inserted_at: insertedAt }
      return { ...answer, stored: { event, distinct_id: distinctId, ...times } }
    }
    case 'dead_letter': {
      const { id, stage, reason, time, subject } = receipt.letter
      return { ...answer, dead_letter: { id, stage, reason, time, replayable: subject !== null } }
    }
    case 'dropped': return { ...answer, dropped: receipt.dropped }
    case 'not_found': return { ...answer, messages_waiting: receipt.messagesWaiting }
  }
}
