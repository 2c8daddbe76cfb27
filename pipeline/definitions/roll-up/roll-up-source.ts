import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { cleanText } from '../../../platform/identity/stored-text.ts'
import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { readSql } from '../../read-sql.ts'

/** One table of counts in ClickHouse, and the table of definitions that follows it. */
export interface RollUpSource {
  name: string
  /** Reads what changed since a moment, in absolute values. */
  read: string
  /** Writes it; takes the rows as one JSON text. */
  upsert: string
  /** Columns that identify a row. */
  key: readonly string[]
}

/** Everything that is rolled up, in this order. */
export const ROLL_UP_SOURCES: readonly RollUpSource[] = [
  {
    name: 'events',
    read: readSql(import.meta.dirname, 'read-changed-events.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-definitions.sql'),
    key: ['project_id', 'name']
  },
  {
    name: 'properties',
    read: readSql(import.meta.dirname, 'read-changed-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-property-definitions.sql'),
    key: ['project_id', 'kind', 'group_type', 'name']
  },
  {
    name: 'event properties',
    read: readSql(import.meta.dirname, 'read-changed-event-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-properties.sql'),
    key: ['project_id', 'event', 'property']
  }
]

/** Rows per statement to Postgres. */
const ROWS_PER_UPSERT = 2000

type Row = Record<string, string | number>

/**
 * Brings the definitions of one source up to date with what changed since the given moment.
 *
 * @param since  In the time of ClickHouse, epoch milliseconds; 0 for everything.
 * @returns how many definitions were read.
 */
export async function rollUpSource (
  source: RollUpSource, stores: { clickhouse: ClickHouse, sql: Sql }, since: number
): Promise<number> {
  const result = await stores.clickhouse.query({
    query: source.read, query_params: { since }, format: 'JSONEachRow'
  })
  const rows = withCleanNames(await result.json<Row>(), source.key)
  for (let from = 0; from < rows.length; from += ROWS_PER_UPSERT) {
    // Always in the same order, so that two writers could not wait for each other.
    await stores.sql.unsafe(source.upsert, [JSON.stringify(rows.slice(from, from + ROWS_PER_UPSERT))])
  }
  return rows.length
}

/** Postgres has no NUL in texts. A cleaned name must not meet its own double in one statement. */
function withCleanNames (rows: readonly Row[], key: readonly string[]): Row[] {
  const clean = new Map<string, Row>()
  for (const row of rows) {
    for (const [name, value] of Object.entries(row)) {
      if (typeof value === 'string') row[name] = cleanText(value)
    }
    clean.set(JSON.stringify(key.map((name) => row[name])), row)
  }
  return [...clean].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}
