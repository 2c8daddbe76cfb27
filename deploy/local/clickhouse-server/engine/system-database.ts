import { type EngineSession } from './engine-session.ts'

/**
 * The server's own database: its query log, and system tables without the paths of this machine.
 *
 * Re-created at each start: the views follow the columns of the engine's version.
 */
export async function prepareSystemDatabase (session: EngineSession): Promise<void> {
  await session.run('CREATE DATABASE IF NOT EXISTS millrace')
  await session.run('CREATE DATABASE IF NOT EXISTS millrace_server')
  for (const statement of [...VIEWS, QUERY_LOG]) await session.run(statement)
}

const VIEWS = [
  `CREATE OR REPLACE VIEW millrace_server.tables AS
   SELECT * REPLACE ([] :: Array(String) AS data_paths, '' AS metadata_path)
   FROM system.tables WHERE database != 'millrace_server'`,
  `CREATE OR REPLACE VIEW millrace_server.databases AS
   SELECT * REPLACE ('' AS data_path, '' AS metadata_path)
   FROM system.databases WHERE name != 'millrace_server'`,
  `CREATE OR REPLACE VIEW millrace_server.parts AS
   SELECT * REPLACE ('' AS path)
   FROM system.parts WHERE database != 'millrace_server'`
]

// The columns have the names and meanings of a server's system.query_log, so that one query reads either.
// 35 days, because usage is counted over 30; a day is dropped whole. ORDER BY: read by time.
const QUERY_LOG = `CREATE TABLE IF NOT EXISTS millrace_server.query_log
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
