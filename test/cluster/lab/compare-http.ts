/**
 * The same requests to ClickHouse's own HTTP handler and to the embedded server, and what differs in their answers.
 *
 * Every difference has to be one of `KNOWN`, which `chdb-server/README.md` lists.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import zlib from 'node:zlib'
import { readBlocks, type RecordedRequest, startTestServer, TEST_PASSWORDS } from 'chdb-server/testing'
import { supervise } from '../../faults/system/supervise.ts'
import { type LabNode, startLab } from './start-lab.ts'
import { madeRequests, prepareDatabases } from './http-requests.ts'

const ROOT = path.join(import.meta.dirname, '..', '..', '..')
/** Suites of clients, whose requests are recorded in the order in which they are sent. */
const SUITES = [
  'chdb-server/http/clickhouse-client.test.ts', 'chdb-server/http/recorded-clients.test.ts',
  'chdb-server/analyst/ordinary-queries.test.ts', 'test/sql-clients/main.ts'
]
/** The first run of a suite installs its clients. */
const SUITE_TIMEOUT_MS = 600_000
const ANSWER_TIMEOUT_MS = 60_000

const HEADERS = [
  'content-type', 'content-encoding', 'vary', 'connection', 'location', 'allow', 'www-authenticate', 'access-control-allow-origin',
  'access-control-expose-headers', 'x-clickhouse-format', 'x-clickhouse-timezone', 'x-clickhouse-exception-code', 'x-clickhouse-query-id',
  'x-clickhouse-server-display-name', 'x-clickhouse-summary', 'x-clickhouse-progress', 'x-clickhouse-exception-tag'
]

/** A request, and what it stands for. */
export interface ComparedRequest extends RecordedRequest { source: string }

/** One part of two answers in which they differ. */
export interface HttpDifference {
  request: ComparedRequest
  /** `status`, `body`, `end`, or the name of a header. */
  part: string
  /** One of the two answers is an error. */
  isFailed: boolean
  real: string
  embedded: string
}

/** A difference that `chdb-server/README.md` lists by this name. */
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
  { name: 'sessions', is: ({ request }) => request.source === 'sessions' || request.path.includes('session_id=') },
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

/** The entry of the list; undefined for any other difference. */
function known (difference: HttpDifference): KnownDifference | undefined {
  const text = Buffer.from(difference.request.body, 'base64').toString('latin1')
  return KNOWN.find(({ is }) => is(difference, text))
}

/** Names that the list in the README must have. */
const KNOWN_NAMES: readonly string[] = KNOWN.map(({ name }) => name)

type Parts = Record<string, string>

/** Requests of the suites of clients, each text once; those of an analyst as the owner's. */
export async function recordClients (): Promise<ComparedRequest[]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-requests-'))
  const requests: ComparedRequest[] = []
  try {
    for (const [index, suite] of SUITES.entries()) {
      const file = path.join(folder, `${index}.jsonl`)
      // `npm test` reports the failures of the suite; here it only sends requests.
      await new Promise<void>((resolve) => {
        execFile(process.execPath, [suite], {
          cwd: ROOT,
          env: { ...process.env, CHDB_SERVER_TEST_RECORD: file },
          timeout: SUITE_TIMEOUT_MS,
          maxBuffer: 50_000_000
        }, () => resolve())
      })
      const lines = (await readFile(file, 'utf8')).trim().split('\n')
      const sent = lines.map((line) => JSON.parse(line) as RecordedRequest).filter((request) => !isEndless(request))
      requests.push(...sent.map((request) => ({ ...asOwner(request), source: path.basename(suite) })))
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return requests
}

/** Of a test that ends its query from outside. */
const isEndless = ({ body }: RecordedRequest): boolean => /system\.numbers(?! LIMIT)/.test(Buffer.from(body, 'base64').toString())

const basic = (user: string, password: string): string => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
const ANALYST = basic('analyst', TEST_PASSWORDS.analyst)

/** Analysts, and what they may, are the embedded server's own. */
function asOwner (request: RecordedRequest): RecordedRequest {
  const headers = { ...request.headers }
  if (headers.authorization === ANALYST) headers.authorization = basic('owner', TEST_PASSWORDS.owner)
  if (headers['x-clickhouse-user'] === 'analyst' && headers['x-clickhouse-key'] === TEST_PASSWORDS.analyst) {
    Object.assign(headers, { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner })
  }
  return { ...request, headers }
}

/** Sends each request to both servers, one after the other, and returns where their answers differ. */
export async function compareAnswers (
  requests: readonly ComparedRequest[], real: URL, embedded: URL
): Promise<HttpDifference[]> {
  const differences: HttpDifference[] = []
  for (const request of requests) {
    const [one, other] = await Promise.all([readAnswer(request, real), readAnswer(request, embedded)])
    const isFailed = [one, other].some((parts) => parts['x-clickhouse-exception-code'] !== '(none)')
    for (const part of Object.keys(one)) {
      if (one[part] !== other[part]) differences.push({ request, part, isFailed, real: one[part] ?? '', embedded: other[part] ?? '' })
    }
  }
  return differences
}

async function readAnswer (request: ComparedRequest, { hostname, port }: URL): Promise<Parts> {
  const body = Buffer.from(request.body, 'base64')
  const { 'transfer-encoding': chunked, ...headers } = request.headers
  const framing = chunked === undefined && request.method === 'POST' ? { 'content-length': String(body.length) } : {}
  return await new Promise<Parts>((resolve) => {
    const sent = http.request({
      agent: false, hostname, port, method: request.method, path: request.path,
      headers: { ...headers, ...framing, ...chunked === undefined ? {} : { 'transfer-encoding': chunked } },
      timeout: ANSWER_TIMEOUT_MS
    })
    sent.on('error', (error) => resolve({ status: `no answer: ${error.message}` }))
    sent.on('timeout', () => sent.destroy(new Error('nothing for a minute')))
    sent.on('response', (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('error', () => {})
      answer.on('close', () => {
        describe(request, answer, Buffer.concat(chunks))
          .then(resolve, (error: unknown) => resolve({ status: String(error) }))
      })
    })
    sent.end(request.method === 'POST' ? body : undefined)
  })
}

async function describe (request: ComparedRequest, answer: http.IncomingMessage, bytes: Buffer): Promise<Parts> {
  const tag = answer.headers['x-clickhouse-exception-tag']
  const parts: Parts = { status: String(answer.statusCode), end: answer.complete ? 'whole' : 'cut' }
  for (const name of HEADERS) parts[name] = tidyHeader(name, answer.headers[name])
  const isCode = answer.headers['x-clickhouse-exception-code'] !== undefined
  let text = decode(request, answer, bytes).toString('latin1')
  if (tag !== undefined) text = text.replaceAll(String(tag), '(tag)')
  parts.body = tidyBody(text, isCode)
  return parts
}

function decode ({ path }: ComparedRequest, { headers }: http.IncomingMessage, bytes: Buffer): Buffer {
  const decoders: Record<string, (bytes: Buffer, options: object) => Buffer> = {
    gzip: zlib.gunzipSync, deflate: zlib.inflateSync, br: zlib.brotliDecompressSync, zstd: zlib.zstdDecompressSync
  }
  const decoder = decoders[headers['content-encoding'] ?? '']
  try {
    // What was cut off ends without the end of its compression.
    const plain = decoder === undefined ? bytes : decoder(bytes, { finishFlush: zlib.constants.Z_SYNC_FLUSH })
    if (plain.length === 0 || !/[?&]compress=1/.test(path)) return plain
    return readBlocks(plain)
  } catch (error) {
    return Buffer.from(`cannot be decoded: ${String(error)}`)
  }
}

/** Values that differ from run to run are there or not. */
function tidyHeader (name: string, value: string | string[] | undefined): string {
  if (value === undefined) return '(none)'
  const text = String(value)
  if (name === 'x-clickhouse-exception-tag' || name === 'x-clickhouse-progress') return '(there)'
  if (name === 'x-clickhouse-query-id' && /^[\da-f-]{36}$/.test(text)) return '(uuid)'
  if (name === 'connection') return text.toLowerCase()
  return text.replaceAll(/"(elapsed_ns|memory_usage)":"\d+"/g, '"$1":"?"')
}

/** Without versions, times and counts of work, which differ from run to run. */
function tidyBody (text: string, isError: boolean): string {
  const tidied = text.replaceAll(/ \(version [\d.]+(?: \(official build\))?\)/g, '')
    .replaceAll(/"(elapsed|rows_read|bytes_read)":\s*[\d.e-]+/g, '"$1": ?')
    .replaceAll(/<(elapsed|rows_read|bytes_read)>[\d.e-]+</g, '<$1>?<')
    .replaceAll(/\n\d+ \(tag\)/g, '\n? (tag)')
    .replaceAll(/[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[\da-f]{4}-[\da-f]{12}/g, '(drawn uuid)')
    .replaceAll(new RegExp(`${new Date().toISOString().slice(0, 10)} [\\d:.]+`, 'g'), '(now)')
  // Avro ends its header and each block with 16 bytes that ClickHouse draws again in each second.
  if (text.startsWith('Obj\x01')) return text.replaceAll(text.slice(-16), '')
  // Where in a text the parser stopped, and threads that were at work.
  return isError ? tidied.trimEnd() : tidied
}

/**
 * Compares the two, on a node that nothing was done to, and the list of the README with what it should have.
 *
 * @returns how many requests there were. @throws naming each difference that is not listed.
 */
export async function compareHttp (dataDir: string, giveUp: AbortSignal): Promise<string> {
  const readme = await readFile(path.join(ROOT, 'chdb-server', 'README.md'), 'utf8')
  const unlisted = KNOWN_NAMES.filter((name) => !readme.includes(`| ${name} |`))
  if (unlisted.length > 0) throw new Error(`chdb-server/README.md does not list ${unlisted.join(', ')}`)
  const requests = [...prepareDatabases(), ...madeRequests(), ...await recordClients()]
  const ends: (() => unknown)[] = []
  try {
    const server = await startTestServer({ after: (end) => ends.push(end) })
    const owners = { owner: TEST_PASSWORDS.owner }
    const lab = await startLab({ dataDir, shards: [1], owners }, async (name, start) => {
      const part = await supervise({ name, start, giveUp, onSurprise: () => {} })
      ends.push(async () => { await part.stop() })
      return part
    })
    ends.push(lab.close)
    const real = new URL((lab.nodes[0] as LabNode).url('default', ''))
    const differences = await compareAnswers(requests, real, new URL(`http://127.0.0.1:${server.port}`))
    const lines = differences.filter((each) => known(each) === undefined).map(({ request, part, real, embedded }) =>
      `\n        ${request.source}: ${request.method} ${request.path.slice(0, 200)} ${Buffer.from(request.body, 'base64').toString().slice(0, 100)} -- ` +
      `${part}: ${real.slice(0, 160)} and ${embedded.slice(0, 160)}`)
    if (lines.length > 0) throw new Error(lines.join(''))
    const counts = ({ part }: HttpDifference): boolean => part === 'x-clickhouse-summary'
    const differ = new Set(differences.filter((each) => !counts(each)).map(({ request }) => request)).size
    return `${requests.length} requests, ${requests.length - differ} answered alike (but for counts in the summary), ${differ} with a difference that is listed`
  } finally {
    for (const end of ends) await end()
  }
}
