/** What is known of a query: for the query log, for its answer's headers, and for those who ask what runs. */
import type { IncomingMessage } from 'node:http'
import type { EngineResult } from './engine.ts'

/** One query; the names of its columns in the query log are these with underscores. */
export interface QueryRecord {
  startedAt: Date
  queryDurationMs: number
  user: string
  query: string
  /** First word of the query. */
  queryKind: string
  queryId: string
  currentDatabase: string
  /** As sampled while the query ran, or what it gave. */
  readRows: number
  readBytes: number
  memoryUsage: number
  /** The engine's estimate of the rows to be read, 0 when it has none; for progress only. */
  totalRows: number
  writtenRows: number
  resultRows: number
  resultBytes: number
  /** 0 when the query succeeded. */
  exceptionCode: number
  exception: string
  httpUserAgent: string
  logComment: string
  /** Of the session of the engine in which it runs; empty while it runs in none. */
  mark: string
  /** The client asked for it (`log_queries=1`). */
  isWanted: boolean
}

/** Of a query that has just come. */
export function startRecord (user: string, request: IncomingMessage): QueryRecord {
  return {
    startedAt: new Date(),
    queryDurationMs: 0,
    user,
    query: '',
    queryKind: '',
    queryId: '',
    currentDatabase: '',
    readRows: 0,
    readBytes: 0,
    memoryUsage: 0,
    totalRows: 0,
    resultRows: 0,
    writtenRows: 0,
    resultBytes: 0,
    exceptionCode: 0,
    exception: '',
    httpUserAgent: request.headers['user-agent'] ?? '',
    logComment: '',
    mark: '',
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
