/** What is known of a query: for the query log, for its answer's headers, and for those who ask what runs. */
import type { IncomingMessage } from 'node:http'
import type { EngineResult } from './engine.ts'

export type QueryRecord = ReturnType<typeof startRecord>

/** Of a query that has just come. The names of its columns in the query log are these with underscores. */
export function startRecord (user: string, request: IncomingMessage) {
  return {
    startedAt: new Date(),
    queryDurationMs: 0,
    user,
    query: '',
    /** First word of the query. */
    queryKind: '',
    queryId: '',
    currentDatabase: '',
    /** As sampled while the query ran, or what it gave. */
    readRows: 0,
    readBytes: 0,
    memoryUsage: 0,
    /** The engine's estimate of the rows to be read, 0 when it has none; for progress only. */
    totalRows: 0,
    writtenRows: 0,
    resultRows: 0,
    resultBytes: 0,
    /** 0 when the query succeeded. */
    exceptionCode: 0,
    exception: '',
    httpUserAgent: request.headers['user-agent'] ?? '',
    logComment: '',
    /** Of the session of the engine in which it runs; empty while it runs in none. */
    mark: '',
    /** The client asked for it (`log_queries=1`). */
    isWanted: false
  }
}

/**
 * Adds the counts of a statement that has ended to its record.
 *
 * @returns the value of `X-ClickHouse-Summary`.
 */
export function summarize (record: QueryRecord, result: EngineResult, { isInsert = false } = {}): string {
  const { rows, rowBytes, elapsedSeconds } = result
  const readRows = Math.max(record.readRows, rows)
  const readBytes = Math.max(record.readBytes, rowBytes)
  Object.assign(record, { readRows, readBytes, [isInsert ? 'writtenRows' : 'resultRows']: rows })
  return writeCounts({
    read_rows: readRows,
    read_bytes: readBytes,
    written_rows: isInsert ? rows : 0,
    written_bytes: isInsert ? rowBytes : 0,
    total_rows_to_read: 0,
    result_rows: rows,
    result_bytes: rowBytes,
    elapsed_ns: elapsedSeconds * 1e9
  })
}

/** The value of `X-ClickHouse-Progress`. */
export function writeProgress (record: QueryRecord, elapsedSeconds: number): string {
  return writeCounts({
    read_rows: record.readRows,
    read_bytes: record.readBytes,
    total_rows_to_read: record.totalRows,
    elapsed_ns: elapsedSeconds * 1e9,
    memory_usage: record.memoryUsage
  })
}

function writeCounts (counts: Readonly<Record<string, number>>): string {
  return JSON.stringify(counts, (_, value: unknown) => typeof value === 'number' ? String(Math.round(value)) : value)
}
