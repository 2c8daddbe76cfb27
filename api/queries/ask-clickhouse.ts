import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { ClickHouseAddress } from '../../platform/clickhouse/connect-clickhouse.ts'
import { describeFailure, noAnswer, type QueryFailure, QueryFailedError } from './query-failure.ts'

export interface AnalystQuery {
  /** Without FORMAT and closing semicolon; see `blankFormat`. */
  query: string
  queryId: string
  /** Of the result: `CSVWithNames`. */
  format: string
  /** Values of `{name:Type}`, by name. */
  parameters: Readonly<Record<string, string>>
  settings: Readonly<Record<string, string>>
  /** Tells in ClickHouse's query log who asked. */
  logComment: string
}

/** What a query has done so far, as ClickHouse tells it. Counts are estimates of a moment. */
export interface Progress {
  read_rows: number
  read_bytes: number
  /** 0 when ClickHouse has no estimate. */
  total_rows: number
}

export interface AskOptions {
  /** Its firing closes the connection, which ends the query in ClickHouse. */
  signal: AbortSignal
  onProgress: (progress: Progress) => void
}

const PROGRESS_EVERY_MS = 250

/** Each progress is a header, and a query may run for a minute. */
const MAX_HEADER_BYTES = 1_048_576

const MAX_ERROR_BYTES = 65_536

/**
 * Sends a query on a connection of its own, so that closing it ends this query and nothing else.
 *
 * @returns the answer, whose body is the result as it comes; later errors are at its end
 *   (`findException`).
 * @throws {QueryFailedError} when ClickHouse refuses the query, or does not answer.
 */
export async function askClickHouse (
  { origin, database, headers }: ClickHouseAddress, asked: AnalystQuery, { signal, onProgress }: AskOptions
): Promise<IncomingMessage> {
  const url = new URL('/', origin)
  for (const [name, value] of Object.entries({ database, ...requestSettings(asked), ...asked.settings })) {
    url.searchParams.set(name, value)
  }
  for (const [name, value] of Object.entries(asked.parameters)) url.searchParams.set(`param_${name}`, escapeParameter(value))
  const { request } = url.protocol === 'https:' ? https : http
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent: false, signal, maxHeaderSize: MAX_HEADER_BYTES, headers: { ...headers, 'content-type': 'text/plain' } })
    // After the parser of HTTP, which takes the same bytes: it hands headers over only when all have come.
    sent.once('socket', (socket) => socket.on('data', createProgressReader(onProgress)))
    sent.once('response', resolve)
    sent.once('error', (cause) => reject(signal.aborted ? cause : new QueryFailedError(noAnswer(), { cause })))
    sent.end(asked.query)
  })
  const failure = await readFailure(answer)
  if (failure === null) return answer
  throw new QueryFailedError(failure)
}

function requestSettings ({ queryId, format, logComment }: AnalystQuery): Record<string, string> {
  return {
    query_id: queryId,
    default_format: format,
    log_comment: logComment,
    send_progress_in_http_headers: '1',
    http_headers_progress_interval_ms: String(PROGRESS_EVERY_MS),
    // A result goes out as it comes: anyone who closes the connection need not wait for its end.
    wait_end_of_query: '0',
    // On a server; the embedded one always does.
    cancel_http_readonly_queries_on_client_close: '1'
  }
}

/** Values come in the form of TSV, in which these three have a meaning. */
function escapeParameter (value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n')
}

const PROGRESS_HEADER = /^x-clickhouse-progress: *(\{.*\}) *$/gim

/** Finds the progress in the bytes of an answer's head. */
function createProgressReader (onProgress: (progress: Progress) => void): (bytes: Buffer) => void {
  let head = ''
  let isRead = false
  return (bytes) => {
    if (isRead) return
    head += bytes.toString('latin1')
    const end = head.indexOf('\r\n\r\n')
    isRead = end !== -1
    // The last line may not have come whole.
    const lines = head.slice(0, isRead ? end : head.lastIndexOf('\n') + 1)
    const latest = [...lines.matchAll(PROGRESS_HEADER)].at(-1)?.[1]
    head = isRead ? '' : head.slice(lines.length)
    if (latest !== undefined) onProgress(readProgress(latest))
  }
}

/** @param text  The JSON of `X-ClickHouse-Progress` or `-Summary`, whose numbers are strings. */
export function readProgress (text: string): Progress {
  try {
    const latest = JSON.parse(text) as Record<string, string>
    return {
      read_rows: Number(latest['read_rows'] ?? 0), read_bytes: Number(latest['read_bytes'] ?? 0),
      total_rows: Number(latest['total_rows_to_read'] ?? 0)
    }
  } catch {
    // Another server's form: the query goes on without it.
    return { read_rows: 0, read_bytes: 0, total_rows: 0 }
  }
}

async function readFailure (answer: IncomingMessage): Promise<QueryFailure | null> {
  const code = Number(answer.headers['x-clickhouse-exception-code'] ?? 0)
  if (code === 0 && answer.statusCode === 200) return null
  let text = ''
  for await (const chunk of answer) {
    text += String(chunk)
    if (text.length > MAX_ERROR_BYTES) break
  }
  // Without a code it is a proxy that answered.
  return code === 0 ? noAnswer() : describeFailure(code, text)
}

/** A table that analysts may read, as the data dictionary describes it. */
export interface TableDescription {
  name: string
  comment: string
  columns: { name: string, type: string, comment: string }[]
}

const COLUMNS = `
  SELECT table, name, type, comment FROM system.columns
  WHERE database = currentDatabase() AND table NOT LIKE '.%' ORDER BY table, position LIMIT 5000`

const TABLES = `
  SELECT name, comment FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE '.%' ORDER BY name LIMIT 500`

interface Asking { logComment: string, signal: AbortSignal }

/** The tables of the login for analysts with their columns and comments. @throws {QueryFailedError} */
export async function readTables (clickhouse: ClickHouseAddress, asking: Asking): Promise<TableDescription[]> {
  const tables = await readRows<{ name: string, comment: string }>(clickhouse, TABLES, asking)
  const columns = await readRows<TableDescription['columns'][number] & { table: string }>(clickhouse, COLUMNS, asking)
  return tables.map(({ name, comment }) => ({
    name, comment, columns: columns.filter(({ table }) => table === name).map(({ table: _, ...column }) => column)
  }))
}

async function readRows<T> (
  clickhouse: ClickHouseAddress, query: string, { logComment, signal }: Asking
): Promise<T[]> {
  const answer = await askClickHouse(clickhouse, {
    query, queryId: '', format: 'JSONEachRow', parameters: {}, logComment, settings: { wait_end_of_query: '1' }
  }, { signal, onProgress: () => {} })
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += String(chunk)
  return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as T)
}
