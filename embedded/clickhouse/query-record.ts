/** What is known of a query: for the query log, for its answer's headers, and for those who ask what runs. */
import type { IncomingMessage } from 'node:http'
import type { EngineResult } from './engine/engine.ts'

/** One query that has ended. */
export interface QueryRecord {
  startedAt: Date
  durationMs: number
  user: string
  query: string
  /** First word of the query. */
  kind: string
  queryId: string
  database: string
  /** As sampled while the query ran, or what it gave. */
  readRows: number
  readBytes: number
  memoryUsage: number
  /** Estimate of the rows to be read; for progress only. */
  totalRows: number
  writtenRows: number
  resultRows: number
  resultBytes: number
  /** 0 when the query succeeded. */
  exceptionCode: number
  exception: string
  userAgent: string
  logComment: string
  /** Of the session of the engine in which it runs; empty while it runs in none. */
  mark: string
  /** The client asked for it (`log_queries=1`). */
  isWanted: boolean
}

/** The counts a server gives in `X-ClickHouse-Summary`. */
export interface Summary {
  readRows: number
  readBytes: number
  writtenRows: number
  writtenBytes: number
  resultRows: number
  resultBytes: number
  elapsedSeconds: number
}

/** What a query has done so far. */
export interface Progress {
  readRows: number
  readBytes: number
  totalRows: number
  memoryUsage: number
  elapsedSeconds: number
}

/** Of a query that has just come. */
export function startRecord (user: string, request: IncomingMessage): QueryRecord {
  return {
    startedAt: new Date(),
    durationMs: 0,
    user,
    query: '',
    kind: '',
    queryId: '',
    database: '',
    readRows: 0,
    readBytes: 0,
    memoryUsage: 0,
    totalRows: 0,
    resultRows: 0,
    writtenRows: 0,
    resultBytes: 0,
    exceptionCode: 0,
    exception: '',
    userAgent: request.headers['user-agent'] ?? '',
    logComment: '',
    mark: '',
    isWanted: false
  }
}

/** Counts of a query that gave rows; adds them to its record. */
export function summarizeRows (record: QueryRecord, result: EngineResult): Summary {
  const { rows, rowBytes, elapsedSeconds } = result
  const readRows = Math.max(record.readRows, rows)
  const readBytes = Math.max(record.readBytes, rowBytes)
  Object.assign(record, { readRows, readBytes, resultRows: rows })
  const written = { writtenRows: 0, writtenBytes: 0 }
  return { readRows, readBytes, ...written, resultRows: rows, resultBytes: rowBytes, elapsedSeconds }
}

/** Counts of an insert of rows; adds them to its record. */
export function summarizeInsert (record: QueryRecord, result: EngineResult): Summary {
  const { rows, rowBytes, elapsedSeconds } = result
  Object.assign(record, { readRows: rows, readBytes: rowBytes, writtenRows: rows })
  return {
    readRows: rows,
    readBytes: rowBytes,
    writtenRows: rows,
    writtenBytes: rowBytes,
    resultRows: rows,
    resultBytes: rowBytes,
    elapsedSeconds
  }
}

/** As the value of `X-ClickHouse-Progress`. */
export function formatProgress (progress: Progress): string {
  return JSON.stringify({
    read_rows: String(progress.readRows),
    read_bytes: String(progress.readBytes),
    total_rows_to_read: String(progress.totalRows),
    elapsed_ns: String(Math.round(progress.elapsedSeconds * 1e9)),
    memory_usage: String(progress.memoryUsage)
  })
}

/** As the value of `X-ClickHouse-Summary`. */
export function formatSummary (summary: Summary): string {
  return JSON.stringify({
    read_rows: String(summary.readRows),
    read_bytes: String(summary.readBytes),
    written_rows: String(summary.writtenRows),
    written_bytes: String(summary.writtenBytes),
    total_rows_to_read: '0',
    result_rows: String(summary.resultRows),
    result_bytes: String(summary.resultBytes),
    elapsed_ns: String(Math.round(summary.elapsedSeconds * 1e9))
  })
}
