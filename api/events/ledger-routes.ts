import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { answerInTime } from '../http/answer-errors.ts'
import { count, object, type Value } from '../http/json-schema.ts'
import { cutPage, decodeCursor, encodeCursor } from '../http/list-queries.ts'
import type { PageContent } from '../http/pagination.ts'
import { defined, limitSeconds, parseSeconds } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'

const properties = {
  minute: { type: 'string', format: 'date-time', description: 'Start of the minute of receipt.' },
  accepted: count('Events published by ingest and processed by the pipeline.'),
  replayed: count('Events replayed from dead letters.'),
  duplicates: count('Events not stored again, because they were stored before.'),
  dead_lettered: count('Events dead-lettered.'),
  deleted: count('Events deleted, or being deleted, by retention or with a person.'),
  balance: count('Expected rows in `events`: accepted + replayed - duplicates - dead_lettered - deleted.'),
  stored: count('Actual rows in `events`. May exceed `balance` for minutes whose events are being stored.'),
  dropped: count('Items answered with 200 and not published, because they are not valid events.')
} as const

const ledgerSchema = object(properties, { $id: 'LedgerMinute' })

const querySchema = pageQuery({
  from: { type: 'string', format: 'date-time', description: 'Minutes that begin at or after this time.' },
  to: { type: 'string', format: 'date-time', description: 'Minutes that begin before this time.' }
})

type LedgerQuery = Value<typeof querySchema>

type LedgerRow = Record<Exclude<keyof typeof properties, 'stored'>, number>

const MAX_SECONDS = 30

/** The books of a project: what became of the events that were received, by minute. */
export async function ledgerRoutes (
  app: FastifyInstance, deps: { clickhouse: ClickHouse, publicUrl: string }
): Promise<void> {
  app.addSchema(ledgerSchema)
  routesOf(app, { tag: 'events', object: 'event', publicUrl: deps.publicUrl }).list('/', {
    summary: 'List the ledger', query: querySchema, item: { $ref: 'LedgerMinute#' },
    description: 'Events accepted in each minute of receipt, and their fates; newest first. Lags by up to ten seconds.'
  }, async ({ query }, { projectId }) => await answerInTime(readLedger(deps.clickhouse, projectId, query)))
}

const ORDER = 'newest minute'

async function readLedger (
  clickhouse: ClickHouse, project: number, { from, to, limit, offset, after }: LedgerQuery
): Promise<PageContent<object>> {
  const last = decodeCursor(after, ORDER, ['integer'])
  const conditions = [
    'project_id = {project: UInt32}',
    ...(from === undefined ? [] : ['minute >= toDateTime({from: UInt32})']),
    ...(to === undefined ? [] : ['minute < toDateTime({to: UInt32})'])
  ].join(' AND ')
  const params = defined({
    project, from: parseSeconds(from), to: parseSeconds(to), limit: limit + 1, offset: last === undefined ? offset : 0,
    last: last && limitSeconds(Number(last[0]))
  })
  const [rows, counts] = await Promise.all([
    queryRows<Record<string, string>>(clickhouse, `
      SELECT toUnixTimestamp(minute) AS minute, accepted, replayed, duplicates, dead_lettered, deleted, balance, dropped
      FROM ledger WHERE ${conditions} ${last === undefined ? '' : 'AND minute < toDateTime({last: UInt32})'}
      ORDER BY ledger.minute DESC LIMIT {limit: UInt32} OFFSET {offset: UInt32}
      SETTINGS max_execution_time = ${MAX_SECONDS}`, params),
    queryRows<{ count: string }>(clickhouse, `SELECT count() AS count FROM ledger WHERE ${conditions}`, params)
  ])
  const found = rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)])) as LedgerRow)
  const page = cutPage(found, {
    limit, count: Number(counts[0]?.count ?? 0), cursorOf: ({ minute }) => encodeCursor(ORDER, [String(minute)])
  })
  const stored = await countStored(clickhouse, project, page.results.map(({ minute }) => minute))
  return {
    ...page,
    results: page.results.map((row) => ({
      ...row, minute: new Date(row.minute * 1000).toISOString(), stored: stored.get(row.minute) ?? 0
    }))
  }
}

async function countStored (
  clickhouse: ClickHouse, project: number, minutes: readonly number[]
): Promise<Map<number, number>> {
  if (minutes.length === 0) return new Map()
  const rows = await queryRows<{ minute: number, count: string }>(clickhouse, `
    SELECT toUnixTimestamp(toStartOfMinute(received_at)) AS minute, count() AS count FROM events
    WHERE project_id = {project: UInt32}
      AND received_at >= toDateTime64({from: UInt32}, 3) AND received_at < toDateTime64({to: Int64}, 3)
    GROUP BY minute SETTINGS final = 0, max_execution_time = ${MAX_SECONDS}`,
  { project, from: Math.min(...minutes), to: Math.max(...minutes) + 60 })
  return new Map(rows.map(({ minute, count }) => [minute, Number(count)]))
}
