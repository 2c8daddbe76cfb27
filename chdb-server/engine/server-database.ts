/** The server's own database `chdb_server`: its query log, and system tables without the paths of this machine. */
import { rmSync, writeFileSync } from 'node:fs'
import type { Logger } from '../json-log.ts'
import type { EngineSession } from './engine.ts'
import { buildInsertFrom, LOGGED_CHARACTERS } from '../statement/read-statement.ts'
import { quoteIdentifier, quoteString } from '../statement/sql-lexer.ts'
import type { Spool } from './body-spool.ts'
import type { QueryRecord } from './query-record.ts'

/** As often as servers write theirs. */
const FLUSH_INTERVAL_MS = 7500
/** Rows that wait for the next flush; beyond, the newest are dropped and counted: a log must not fill memory. */
const MAX_WAITING_ROWS = 10_000
/** The table may take this much disk; then its oldest days go. */
const MAX_TABLE_BYTES = 268_435_456
/** Queries of the owner are logged only when they took longer: programs poll. */
const SLOW_MS = 1000

const VIEWS = [
  `CREATE OR REPLACE VIEW chdb_server.tables AS
   SELECT * REPLACE ([] :: Array(String) AS data_paths, '' AS metadata_path)
   FROM system.tables WHERE database != 'chdb_server'`,
  `CREATE OR REPLACE VIEW chdb_server.databases AS
   SELECT * REPLACE ('' AS data_path, '' AS metadata_path)
   FROM system.databases WHERE name != 'chdb_server'`,
  `CREATE OR REPLACE VIEW chdb_server.parts AS
   SELECT * REPLACE ('' AS path)
   FROM system.parts WHERE database != 'chdb_server'`
]

// The columns have the names and meanings of a server's system.query_log, so that one query reads either.
// 35 days, because usage is counted over 30; a day is dropped whole. ORDER BY: read by time.
const QUERY_LOG = `CREATE TABLE IF NOT EXISTS chdb_server.query_log
(
    type Enum8('QueryStart' = 1, 'QueryFinish' = 2, 'ExceptionBeforeStart' = 3, 'ExceptionWhileProcessing' = 4),
    event_date Date MATERIALIZED toDate(event_time),
    event_time DateTime('UTC') COMMENT 'When the query ended',
    query_start_time_microseconds DateTime64(6, 'UTC'),
    query_duration_ms UInt64,
    read_rows UInt64 COMMENT 'Rows read; of queries shorter than half a second, the rows of the result',
    read_bytes UInt64 COMMENT 'Likewise',
    memory_usage UInt64 COMMENT 'Highest seen; 0 for queries shorter than half a second',
    written_rows UInt64,
    result_rows UInt64,
    result_bytes UInt64 COMMENT 'Bytes sent, before compression',
    current_database LowCardinality(String),
    query String COMMENT 'Text of the query, at most 16 KiB of it' CODEC(ZSTD(3)),
    query_kind LowCardinality(String) COMMENT 'First word of the query, such as Select',
    exception_code Int32 COMMENT '0 when the query succeeded',
    exception String CODEC(ZSTD(3)),
    user LowCardinality(String),
    query_id String,
    http_user_agent LowCardinality(String),
    log_comment String CODEC(ZSTD(3))
)
ENGINE = MergeTree
PARTITION BY event_date
ORDER BY event_time
TTL event_date + INTERVAL 35 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'Queries of analysts, failed queries and slow queries; inserts of events are not logged'`

// Where tools look for it. The database `system` is in memory, so it is made at each start. Only ends of queries are
// logged, and every query is a first one: nothing is passed on to other servers.
const SYSTEM_QUERY_LOG = `CREATE OR REPLACE VIEW system.query_log AS
SELECT *, event_date, user AS initial_user, query_id AS initial_query_id, toUInt8(1) AS is_initial_query,
    query_start_time_microseconds :: DateTime AS query_start_time FROM chdb_server.query_log`

const SELECT_OLDEST_PARTITION = `SELECT sum(bytes_on_disk), min(partition_id) FROM system.parts
WHERE database = 'chdb_server' AND table = 'query_log' AND active`

/**
 * Creates it, and the database of the owner's tables. Views are re-created at each start: they follow the columns of
 * the engine's version.
 */
export async function prepareSystemDatabase (session: EngineSession, database: string): Promise<void> {
  await session.run(`CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(database)}`)
  await session.run('CREATE DATABASE IF NOT EXISTS chdb_server')
  for (const statement of [...VIEWS, QUERY_LOG, SYSTEM_QUERY_LOG]) await session.run(statement)
}

/**
 * The server's query log, in the table `chdb_server.query_log`; the engine has none of its own.
 *
 * Logged are all queries of analysts, and those of the owner that failed, were slow, or ask for it (`log_queries=1`).
 * Inserts of rows that succeed are not logged otherwise: they are the hot path.
 */
export class QueryLog {
  #session: EngineSession
  #spool: Spool
  #logger: Logger
  #rows: string[] = []
  #dropped = 0
  #flushing: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout

  /** @param session  Used by the log alone. */
  constructor (session: EngineSession, spool: Spool, logger: Logger) {
    this.#session = session
    this.#spool = spool
    this.#logger = logger
    this.#timer = setInterval(() => { void this.flush() }, FLUSH_INTERVAL_MS).unref()
  }

  add (record: QueryRecord): void {
    const isKept = record.user === 'analyst' || record.isWanted || record.exceptionCode !== 0 || record.queryDurationMs >= SLOW_MS
    if (!isKept) return
    if (this.#rows.length >= MAX_WAITING_ROWS) this.#dropped++
    else this.#rows.push(JSON.stringify(toRow(record)))
  }

  /** Writes what has gathered. Never throws: rows that cannot be written are counted, logged and dropped. */
  async flush (): Promise<void> {
    this.#flushing = this.#flushing.then(async () => await this.#write())
    await this.#flushing
  }

  async close (): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  async #write (): Promise<void> {
    const rows = this.#rows.splice(0)
    if (rows.length === 0) return
    let path = ''
    try {
      path = this.#spool.newPath(0)
      writeFileSync(path, rows.join('\n'), { mode: 0o600, flag: 'wx' })
      const insert = { head: 'INSERT INTO chdb_server.query_log', settings: '', format: 'JSONEachRow' }
      await this.#session.run(buildInsertFrom(insert, path, 'none'))
      await this.#dropOldest()
    } catch (err) {
      this.#dropped += rows.length
      this.#logger.error({ err }, 'could not write the query log')
    } finally {
      rmSync(path, { force: true })
    }
    if (this.#dropped > 0) this.#logger.warn({ rows: this.#dropped }, 'query log dropped rows')
    this.#dropped = 0
  }

  async #dropOldest (): Promise<void> {
    const { bytes } = await this.#session.run(SELECT_OLDEST_PARTITION)
    const [total, partition] = Buffer.from(bytes).toString().trim().split('\t')
    if (Number(total) <= MAX_TABLE_BYTES || partition === undefined) return
    await this.#session.run(`ALTER TABLE chdb_server.query_log DROP PARTITION ID ${quoteString(partition)}`)
  }
}

function toRow ({ startedAt, isWanted, mark, totalRows, ...columns }: QueryRecord): object {
  const { queryDurationMs, queryKind } = columns
  const row = {
    ...columns,
    type: columns.exceptionCode === 0 ? 'QueryFinish' : 'ExceptionWhileProcessing',
    eventTime: Math.floor((startedAt.getTime() + queryDurationMs) / 1000),
    queryStartTimeMicroseconds: startedAt.toISOString().slice(0, 23).replace('T', ' '),
    queryDurationMs: Math.round(queryDurationMs),
    queryKind: queryKind.charAt(0) + queryKind.slice(1).toLowerCase()
  }
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [
    name.replaceAll(/[A-Z]/g, (char) => `_${char.toLowerCase()}`), typeof value === 'string' ? value.slice(0, LOGGED_CHARACTERS) : value
  ]))
}
