import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { QueryError } from './query-errors.ts'

/** What one request asks for, taken from its method, URL and headers. The body is read later. */
export type QueryRequest = ReturnType<typeof parseRequest>

// Settings a server accepts in the URL which concern its HTTP handler, not the query. The engine would take them, but
// each new set of settings costs a SET, and most clients send some of these always.
const HTTP_ONLY = new Set([
  'add_http_cors_header', 'buffer_size', 'cancel_http_readonly_queries_on_client_close', 'client_protocol_version',
  'close_session', 'enable_http_compression', 'http_headers_progress_interval_ms', 'http_response_buffer_size',
  'http_wait_end_of_query', 'http_write_exception_in_output_format', 'http_zlib_compression_level', 'log_comment',
  'log_queries', 'quota_key', 'send_progress_in_http_headers', 'stacktrace', 'user', 'password', 'wait_end_of_query',
  'query', 'query_id', 'database', 'default_format', 'session_id', 'session_timeout', 'session_check', 'compress',
  'decompress', 'role'
])

/**
 * Reads a request's parameters.
 *
 * @throws {QueryError} 511 for roles, which the server has not; 48 for a body in ClickHouse's own blocks; 115 for a
 *   setting whose name cannot be one, 36 for a query id that fits no header.
 */
export function parseRequest (request: IncomingMessage, url: URL) {
  const query = url.searchParams
  const role = query.get('role')
  if (role) throw new QueryError(511, `There is no role \`${role}\`: this ClickHouse has no roles`)
  if (isOn(query.get('decompress'))) {
    throw new QueryError(48, 'decompress=1 is not supported: compress the body by Content-Encoding')
  }

  /** Engine settings, by name. */
  const settings = new Map<string, string>()
  /** Query parameters, by name and without the prefix `param_`; still escaped as in the URL's TSV form. */
  const params = new Map<string, string>()
  for (const [name, value] of query) {
    if (name.startsWith('param_')) params.set(name.slice('param_'.length), value)
    else if (HTTP_ONLY.has(name)) continue
    else if (/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) settings.set(name, value)
    else throw new QueryError(115, `Unknown setting '${name}'`)
  }

  const headers = request.headers
  return {
    /** GET and HEAD imply read-only, as on a server. */
    readOnlyMethod: request.method === 'GET' || request.method === 'HEAD',
    /** The body, when it is text, is appended to it. */
    queryInUrl: query.getAll('query').join('\n'),
    queryId: checkQueryId(query.get('query_id') || randomUUID()),
    database: headerText(headers['x-clickhouse-database']) || query.get('database') || 'default',
    defaultFormat: headerText(headers['x-clickhouse-format']) || query.get('default_format') || undefined,
    /** The request names a session, of which nothing is kept. */
    isInSession: Boolean(query.get('session_id')),
    settings,
    params,
    /** Hold the answer back until the query has ended, so that every error gets its status. */
    waitEndOfQuery: isOn(query.get('wait_end_of_query') ?? query.get('http_wait_end_of_query')),
    /** Of HTTP; 0: none. */
    compressionLevel: isOn(query.get('enable_http_compression')) ? Number(query.get('http_zlib_compression_level')) || 3 : 0,
    /** Compress the answer into ClickHouse's own blocks. */
    compressBlocks: isOn(query.get('compress')),
    /** The client's revision of the protocol, for which format Native is written; 0: none. */
    protocolVersion: Number(query.get('client_protocol_version')) || 0,
    logComment: query.get('log_comment') ?? '',
    /** Milliseconds between headers that tell the progress; 0: none are wanted. */
    progressEveryMs: isOn(query.get('send_progress_in_http_headers')) ? parseInterval(query) : 0,
    /** Keep the query in the log, however short it is. */
    logQueries: isOn(query.get('log_queries'))
  }
}

/** Samples are taken every half second; servers tell theirs every 100 ms. */
function parseInterval (query: URLSearchParams): number {
  return Math.max(100, Math.min(Number(query.get('http_headers_progress_interval_ms')) || 500, 600_000))
}

/** The id goes into a header of the answer. */
function checkQueryId (id: string): string {
  if (!/^[\x20-\x7e]{1,256}$/.test(id)) throw new QueryError(36, 'query_id must be 1 to 256 printable ASCII characters')
  return id
}

function isOn (value: string | null): boolean {
  return value === '1' || value === 'true'
}

function headerText (value: string | string[] | undefined): string {
  return Array.isArray(value) ? value.join(',') : value ?? ''
}
