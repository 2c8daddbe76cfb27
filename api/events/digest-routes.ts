import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { EVENT_IDENTITY, EVENT_PROPERTIES_HASH } from '../../schema/wire/event-row.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { array, object, partial } from '../http/json-schema.ts'
import { parseSeconds } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'

const MAX_ROWS = 10_000

const MAX_SECONDS = 60

const HASHES = `${EVENT_IDENTITY} AS identity, ${EVENT_PROPERTIES_HASH} AS properties_hash`

const OF_DAYS = 'project_id = {project: UInt32} AND timestamp >= {from: Date} AND timestamp < {to: Date} + 1'

const date = { type: 'string', format: 'date' } as const
const word = { type: 'string', description: '64-bit integer, in decimal.' } as const

const digestsSchema = object({
  results: array(object({
    day: date, event: { type: 'string' }, count: { type: 'integer' }, xor: word, sum: word,
    with_properties: { ...word, description: 'Sum of (hash XOR hash of the stored properties).' }
  })),
  is_cut: { type: 'boolean', description: `true: more than ${MAX_ROWS} rows; request fewer days.` }
})

const hashesSchema = object({
  results: array(object({
    uuid: { type: 'string' }, event: { type: 'string' }, distinct_id: { type: 'string' }, identity: word, properties: word
  })),
  is_cut: { type: 'boolean', description: 'true: more follow; request those after the last one.' }
})

const HASH = 'sipHash64 of uuid, name, distinct id and time (epoch milliseconds), joined by line feeds'

/** Checksums of stored events, by which whoever has them elsewhere sees whether all are here. */
export async function digestRoutes (app: FastifyInstance, { clickhouse }: { clickhouse: ClickHouse }): Promise<void> {
  const routes = routesOf(app, { tag: 'events', object: 'event' })
  const ask = async (query: string, params: object): Promise<{ results: unknown[], is_cut: boolean }> => {
    const settings = { max_execution_time: MAX_SECONDS }
    const rows = await queryRows(clickhouse, query, { ...params, most: MAX_ROWS + 1 }, settings)
      .catch((error: unknown) => { throw describeClickHouseError(error, 'which has the events') })
    return { results: rows.slice(0, MAX_ROWS), is_cut: rows.length > MAX_ROWS }
  }

  routes.get('/events/digests', {
    summary: 'Compute checksums of stored events by day and name',
    description: `Count, XOR and sum (mod 2^64) of ${HASH}; by UTC day.`,
    query: partial({
      from: date,
      to: { ...date, description: 'The last day.' },
      received_from: { type: 'string', format: 'date-time', description: 'Only events received at or after this second.' }
    }, 'from', 'to'),
    answer: digestsSchema
  }, async ({ query: { from, to, received_from: receivedFrom } }, { projectId }) => await ask(`
    SELECT toString(toDate(timestamp, 'UTC')) AS day, event, toUInt32(count()) AS count, toString(groupBitXor(identity)) AS xor,
      toString(sum(identity)) AS sum, toString(sum(bitXor(identity, properties_hash))) AS with_properties
    FROM (SELECT timestamp, event, ${HASHES} FROM events
      WHERE ${OF_DAYS} ${receivedFrom === undefined ? '' : 'AND received_at >= toDateTime({received: UInt32})'})
    GROUP BY day, event ORDER BY day, event LIMIT {most: UInt32}`,
  { project: projectId, from, to, received: parseSeconds(receivedFrom) ?? 0 }))

  // ClickHouse has other orders for uuids and for their texts: a page is cut in the one in which the next begins.
  routes.get('/events/hashes', {
    summary: 'List the hashes of stored events of a day',
    description: `Ordered by uuid (in ClickHouse order), distinct id and name. \`identity\` is ${HASH}.`,
    query: partial({
      day: date,
      event: { type: 'string', maxLength: 400, default: '', description: 'Only events of this name.' },
      after_uuid: { type: 'string', format: 'uuid', default: '00000000-0000-0000-0000-000000000000' },
      after_distinct_id: { type: 'string', maxLength: 400, default: '' },
      after_event: { type: 'string', maxLength: 400, default: '' }
    }, 'day'),
    answer: hashesSchema
  }, async ({ query: { day, event, after_uuid: uuid, after_distinct_id: id, after_event: name } }, { projectId }) => await ask(`
    SELECT toString(key) AS uuid, event, distinct_id, toString(identity) AS identity, toString(properties_hash) AS properties
    FROM (SELECT uuid AS key, distinct_id, timestamp, event, ${HASHES} FROM events
      WHERE ${OF_DAYS} ${event === '' ? '' : 'AND event = {event: String}'}
        AND (uuid, distinct_id, event) > ({uuid: UUID}, {id: String}, {name: String}))
    ORDER BY key, distinct_id, event LIMIT {most: UInt32}`,
  { project: projectId, from: day, to: day, event, uuid, id, name }))
}
