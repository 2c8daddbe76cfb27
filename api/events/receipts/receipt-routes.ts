import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { invalidField } from '../../../engines/errors.ts'
import { toDistinctId } from '../../../schema/wire/identity.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { createSemaphore } from '../../../platform/semaphore.ts'
import { receiptListSchema, receiptSchema } from './describe-receipt.ts'
import { findReceipt, type FindReceiptDeps } from './find-receipt.ts'
import { listReceipts } from './list-receipts.ts'
import { readSentUuid } from './stored-events.ts'
import { askNats, type NatsOnDemand } from '../dead-letters/nats-on-demand.ts'
import { answerInTime, PATIENCE_MS } from '../../http/answer-errors.ts'
import { optional, partial } from '../../http/json-schema.ts'
import { parseIsoDateTime } from '../../http/request-values.ts'
import { routesOf } from '../../http/routes.ts'

/** Searches that run at once: each may search the stream for a second, in the process that also answers flags. */
const MAX_SEARCHES = 4

/** Where an event of the project is, and where the events of a distinct id are. */
export async function receiptRoutes (
  app: FastifyInstance,
  { clickhouse, nats, sql, now }: { clickhouse: ClickHouse, nats: NatsOnDemand, sql: Sql, now: () => number }
): Promise<void> {
  const deps: FindReceiptDeps = { clickhouse, nats: async (ask) => await askNats(nats, ask, 'NATS is unavailable, and the event may be waiting there; try again later.'), sql: () => sql, now }
  const semaphore = createSemaphore({ limit: MAX_SEARCHES, maxWaitMs: PATIENCE_MS })
  app.addSchema(receiptSchema)
  app.addSchema(receiptListSchema)
  const routes = routesOf(app, { tag: 'events', object: 'event' })

  routes.get('/events/:uuid/receipt', {
    summary: 'Retrieve the receipt of an event',
    params: optional({ uuid: { type: 'string', description: 'As sent by the SDK: with or without hyphens, in braces, or as a URN.' } }),
    query: optional({
      timestamp: { type: 'string', format: 'date-time', description: 'Timestamp of the event. Speeds up the search for a UUID that is not version 7, and shows whether retention removed the event.' }
    }),
    answer: { $ref: 'Receipt#' }
  }, async (request, { projectId }) => {
    const uuid = readSentUuid(request.params.uuid)
    if (uuid === null) throw invalidField('uuid', 'uuid must be a UUID')
    const query = { projectId, uuid, timestamp: parseIsoDateTime(request.query.timestamp)?.getTime() }
    return await answerInTime(semaphore.run(async () => await findReceipt(query, deps)))
  })

  routes.get('/receipts', {
    summary: 'List receipts of the latest events of a distinct id',
    description: 'Stored events, dead letters, events that wait in the stream, and recorded drops; newest first.',
    query: partial({
      distinct_id: { type: 'string', minLength: 1, description: 'As sent by the SDK; normalized as by ingest.' },
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 }
    }, 'distinct_id'),
    answer: { $ref: 'ReceiptList#' }
  }, async ({ query: { distinct_id: distinctId, limit } }, { projectId }) => {
    const query = { projectId, distinctId: toDistinctId(distinctId), limit }
    return await answerInTime(semaphore.run(async () => await listReceipts(query, deps)))
  })
}
