import type { HttpDifference } from './compare-http.ts'

/** A difference that `embedded/clickhouse/README.md` lists by this name. */
interface KnownDifference {
  name: string
  is: (difference: HttpDifference, text: string) => boolean
}

const isError = (text: string): boolean => /Code: \d+\. /.test(text)
const codeOf = (text: string): string => /Code: (\d+)/.exec(text)?.[1] ?? ''

/** Parts of an answer that depend on how far a server read a request before it failed. */
const ON_FAILURE = new Set(['x-clickhouse-query-id', 'x-clickhouse-timezone', 'x-clickhouse-exception-tag', 'x-clickhouse-format', 'content-type', 'vary'])
const COMPRESSED = /enable_http_compression=1|accept-encoding/
const HTML = new Set(['x-clickhouse-exception-tag', 'content-type', 'vary'])

/** Statements whose code of error, or answer, differs. */
const STATEMENTS = new Set([
  "SELECT 1 INTO OUTFILE 'x'", 'EXPLAIN nope', 'SYSTEM NOPE', 'CREATE USER nobody', 'GRANT SELECT ON *.* TO nope', 'SHOW USERS', 'SHOW GRANTS', 'SHOW ENGINES', 'SELECT 1 UNION SELECT 2',
  "SELECT * FROM file('nope.csv')", 'query=SELECT+1', 'SELECT {x:UInt8', 'SYSTEM FLUSH LOGS', "KILL QUERY WHERE query_id = 'none'"
])

const KNOWN: readonly KnownDifference[] = [
  { name: 'counts in `X-ClickHouse-Summary`', is: ({ part }) => part === 'x-clickhouse-summary' },
  { name: 'headers of an answer without a query', is: ({ request, part }) => (request.source === 'methods' || request.path === '/ping') && HTML.has(part) },
  { name: 'sessions', is: ({ request }) => request.source === 'sessions' },
  { name: 'names of formats in another case', is: ({ request, part }, text) => part === 'content-type' && (request.path + text + JSON.stringify(request.headers)).includes('json') },
  { name: '`X-ClickHouse-Progress` of short queries', is: ({ part }) => part === 'x-clickhouse-progress' },
  { name: '`GET /?` and unknown paths', is: ({ request }) => request.source === 'methods' && /^\/(\?|\w+)$/.test(request.path) },
  { name: '`add_http_cors_header`', is: ({ request, part }) => part === 'access-control-allow-origin' && request.path.includes('add_http_cors_header') },
  { name: 'two logins in one request, and other schemes', is: ({ request }) => request.source === 'logins' },
  { name: 'compression of answers', is: ({ request, part }) => ['content-encoding', 'vary', 'body'].includes(part) && COMPRESSED.test(request.path + Object.keys(request.headers).join()) },
  { name: 'unknown `Content-Encoding`, and bodies in blocks', is: ({ request }) => request.source === 'compression' && (request.headers['content-encoding'] !== undefined || request.path.includes('decompress=1')) },
  { name: 'times with a zone in parameters', is: ({ request }) => /param_\w+=[^&]*(Z|%2B\d\d)/.test(request.path) },
  { name: 'names of parameters', is: ({ request }) => /[?&]param_(a\+b)?=/.test(request.path) },
  { name: '`readonly=2` in the URL', is: ({ request }) => request.path.includes('readonly=2') },
  { name: 'progress in `JSONEachRowWithProgress`', is: ({ request, part }, text) => part === 'body' && (text + request.path + JSON.stringify(request.headers)).includes('JSONEachRowWithProgress') },
  { name: '`http_write_exception_in_output_format`', is: ({ request }) => request.path.includes('http_write_exception_in_output_format=1') },
  { name: 'statements about users and files', is: (_, text) => STATEMENTS.has(text.trim()) || text.startsWith('KILL QUERY') },
  { name: 'databases', is: ({ embedded }, text) => text.includes('system.databases') && embedded.includes('chdb_server') },
  { name: 'texts of errors', is: ({ part, real, embedded }) => part === 'body' && isError(real) && codeOf(real) === codeOf(embedded) },
  { name: 'headers of errors', is: ({ part, isFailed }) => isFailed && ON_FAILURE.has(part) }
]

/** The entry of the list; undefined for a difference that is none of them. */
export function known (difference: HttpDifference): KnownDifference | undefined {
  const text = Buffer.from(difference.request.body, 'base64').toString('latin1')
  return KNOWN.find(({ is }) => is(difference, text))
}

/** Names that the list in the README must have. */
export const KNOWN_NAMES: readonly string[] = KNOWN.map(({ name }) => name)
