import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { readSql } from '../../read-sql.ts'

/** One table of counts in ClickHouse, and the table of definitions that follows it. */
export interface RollUpSource {
  name: string
  /** Reads what changed since a moment, in absolute values. */
  read: string
  /** Writes it; takes the rows as one JSON text, and now by ClickHouse's clock in epoch milliseconds. */
  upsert: string
}

/** Everything that is rolled up, in this order. */
export const ROLL_UP_SOURCES: readonly RollUpSource[] = [
  {
    name: 'events',
    read: readSql(import.meta.dirname, 'read-changed-events.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-definitions.sql')
  },
  {
    name: 'properties',
    read: readSql(import.meta.dirname, 'read-changed-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-property-definitions.sql')
  },
  {
    name: 'event properties',
    read: readSql(import.meta.dirname, 'read-changed-event-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-properties.sql')
  }
]

/** Rows per statement to Postgres. */
const ROWS_PER_UPSERT = 2000

/** From where a round reads. Times in the clock of ClickHouse, epoch milliseconds. */
export interface RollUpSpan {
  /** 0 for everything. */
  since: number
  nowMs: number
  /** How far the clock of ClickHouse is ahead of that of Postgres, in milliseconds. */
  clockLeadMs: number
}

/**
 * Brings the definitions of one source up to date with what changed since the given moment.
 *
 * @returns how many definitions were read.
 */
export async function rollUpSource (
  source: RollUpSource, stores: { clickhouse: ClickHouse, sql: Sql }, span: RollUpSpan
): Promise<number> {
  const result = await stores.clickhouse.query({
    query: source.read,
    query_params: { since: span.since, clock_lead_ms: span.clockLeadMs },
    format: 'JSONEachRow'
  })
  const rows = await result.json<Record<string, string | number>>()
  for (let from = 0; from < rows.length; from += ROWS_PER_UPSERT) {
    await stores.sql.unsafe(source.upsert, [JSON.stringify(rows.slice(from, from + ROWS_PER_UPSERT)), span.nowMs])
  }
  return rows.length
}
