import { quoteString } from '../../engines/sql/clickhouse-sql.ts'
import { type ClickHouse, LOCAL_DATABASE, OUR_LOG_COMMENT, queryRows, systemTable } from '../clickhouse/connect-clickhouse.ts'

/** SELECTs with one text, of one day. */
export interface LoggedQueries {
  /** Such as 2026-01-31, UTC. */
  day: string
  /** The first 16 KiB of the text, with the values of its parameters. */
  query: string
  /** How often it ran to its end. */
  count: number
  /** When the latest of them ended, by ClickHouse's clock, epoch seconds; not later than now. */
  lastAtSeconds: number
}

/**
 * Maximum characters of a text that are read: the embedded ClickHouse server logs no more, and longer texts take long
 * to search.
 */
const MAX_QUERY_CHARACTERS = 16_384

/**
 * Reads the SELECTs of analysts of the last days, one entry for each text and day, from the log of the ClickHouse that
 * is there: `chdb_server.query_log` of the embedded ClickHouse server, or `system.query_log` of a server.
 *
 * Whose queries count: of the embedded ClickHouse server's, those of its login for analysts. Of a server's, those of
 * every login but ours (this one, and all that begin with `millrace`) which name a table of our database and are not
 * marked as ours; queries that a query sends to other nodes do not count again. Only those that ran to their end do.
 *
 * @param options.days  Whole days, today included.
 * @returns undefined when there is no log: switched off, or our login may not read it.
 */
export async function readQueryLog (
  clickhouse: ClickHouse, options: { days: number, cluster?: string }
): Promise<AsyncIterable<LoggedQueries> | undefined> {
  const log = await findLog(clickhouse, options.cluster ?? '')
  return log && await readLog(clickhouse, log, options)
}

/** A table of queries, with the columns of a server's `system.query_log`. */
export interface QueryLog {
  table: string
  /** Whose SELECTs count. */
  condition: string
}

/** Reads a given log; see `readQueryLog`. */
export async function readLog (
  clickhouse: ClickHouse, log: QueryLog, options: { days: number }
): Promise<AsyncIterable<LoggedQueries>> {
  const result = await clickhouse.query({
    query: `
      SELECT toString(toDate(event_time, 'UTC')) AS day, substring(query, 1, ${MAX_QUERY_CHARACTERS}) AS text,
        count() AS queries,
        toUnixTimestamp(least(max(event_time), now())) AS last_at
      FROM ${log.table}
      WHERE ${log.condition}
        AND event_date >= toDate(now('UTC')) - {days: UInt16} AND toDate(event_time, 'UTC') > toDate(now('UTC')) - {days: UInt16}
        AND type = 'QueryFinish'
      GROUP BY day, text`,
    query_params: { days: options.days },
    format: 'JSONEachRow',
    // The answer is taken as it comes.
    clickhouse_settings: { wait_end_of_query: 0 }
  })
  return readRows(result.stream<LogRow>())
}

interface LogRow {
  day: string
  text: string
  queries: string
  last_at: number
}

async function * readRows (chunks: AsyncIterable<{ json: <T = LogRow>() => T }[]>): AsyncGenerator<LoggedQueries> {
  for await (const rows of chunks) {
    for (const row of rows) {
      const { day, text, queries, last_at: lastAtSeconds } = row.json<LogRow>()
      yield { day, query: text, count: Number(queries), lastAtSeconds }
    }
  }
}

async function findLog (clickhouse: ClickHouse, cluster: string): Promise<QueryLog | undefined> {
  const [found] = await queryRows<{ database: string }>(clickhouse, `
    SELECT database FROM system.tables
    WHERE (database, name) IN (('chdb_server', 'query_log'), ('system', 'query_log'))
    ORDER BY database LIMIT 1`)
  if (found === undefined) return undefined
  return found.database === 'system' ? { ...SYSTEM_LOG, table: systemTable(cluster, 'query_log') } : EMBEDDED_LOG
}

const EMBEDDED_LOG: QueryLog = {
  table: 'chdb_server.query_log',
  // The embedded ClickHouse server knows a statement by its first word.
  condition: `user = 'analyst' AND query_kind IN ('Select', 'With', 'From', '(')
    AND (current_database = currentDatabase() OR position(query, currentDatabase()) > 0)`
}

/** The log of a server, or of all servers of a cluster. */
export const SYSTEM_LOG: QueryLog = {
  table: 'system.query_log',
  condition: `query_kind = 'Select' AND is_initial_query AND user != currentUser() AND NOT startsWith(user, 'millrace')
    AND log_comment != ${quoteString(OUR_LOG_COMMENT)}
    AND hasAny(databases, [${LOCAL_DATABASE}, concat(${LOCAL_DATABASE}, '_all')])`
}
