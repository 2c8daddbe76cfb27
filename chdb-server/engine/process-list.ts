/**
 * `system.processes` as it is: the engine knows each query by an id of its own, as one of its user `default`, with the
 * pipe into which the server has it write. What the server knows instead goes to a small file, which two views join.
 */
import { renameSync, writeFileSync } from 'node:fs'
import type { EngineSession } from './engine.ts'
import type { RunningQueries } from './running-queries.ts'

// Read by the views alone; its file is written whole by this process. Never more rows than requests may run.
const TABLE = `CREATE TABLE IF NOT EXISTS chdb_server.running_queries
(
    mark String COMMENT 'Of the session of the engine in which the query runs',
    query_id String,
    user String,
    query String,
    http_user_agent String
)
ENGINE = File(JSONEachRow)
COMMENT 'What runs, as the server knows it'`

/** The server's own queries are in no row of the table, and not shown. */
const COLUMNS = `SELECT p.* REPLACE (
    r.user AS user, r.user AS initial_user, r.query_id AS query_id, r.query_id AS initial_query_id,
    r.query AS query, r.http_user_agent AS http_user_agent, toUInt8(2) AS interface, '' AS os_user, '' AS client_name,
    CAST(map(), 'Map(LowCardinality(String), LowCardinality(String))') AS Settings)
  FROM system.processes AS p INNER JOIN chdb_server.running_queries AS r ON r.mark = p.Settings['log_comment']`

const VIEWS = [
  `CREATE OR REPLACE VIEW chdb_server.all_processes AS ${COLUMNS}`,
  `CREATE OR REPLACE VIEW chdb_server.processes AS ${COLUMNS} WHERE r.user = 'analyst'`
]

/** The file behind the views. */
export type ProcessList = Awaited<ReturnType<typeof openProcessList>>

/** Makes table and views. Views are re-created at each start: they follow the columns of the engine's version. */
export async function openProcessList (session: EngineSession, running: RunningQueries) {
  await session.run(TABLE)
  const { bytes } = await session.run("SELECT data_paths[1] FROM system.tables WHERE database = 'chdb_server' AND name = 'running_queries' FORMAT TSVRaw")
  const file = Buffer.from(bytes).toString().trim()

  /** Writes what runs at this moment. To be called before a query that reads the views. */
  function write (): void {
    const rows = running.records().filter(({ mark }) => mark !== '').map(({ mark, queryId, user, query, httpUserAgent }) =>
      JSON.stringify({ mark, query_id: queryId, user, query, http_user_agent: httpUserAgent }))
    // At once, so that a query that reads meanwhile sees the old list or the new one.
    writeFileSync(`${file}.new`, rows.map((row) => `${row}\n`).join(''), { mode: 0o600 })
    renameSync(`${file}.new`, file)
  }

  write()
  for (const view of VIEWS) await session.run(view)
  return { write }
}
