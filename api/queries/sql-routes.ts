import { randomUUID } from 'node:crypto'
import { PassThrough, pipeline, Transform } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type ClickHouseAddress, parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { HttpError, invalidField } from '../../engines/errors.ts'
import { type Access, requireSql } from '../http/personal-key-access.ts'
import { routesOf } from '../http/routes.ts'
import { answerQuery, guardFormulas, type RunningQueries, type RunningQuery } from './answer-query.ts'
import { type AnalystQuery, askClickHouse, readTables } from './ask-clickhouse.ts'
import { blankFormat } from '../../engines/questions/blank-format.ts'
import { QueryFailedError } from './query-failure.ts'
import { ROW_FORMAT } from './stream-result.ts'
import { array, bodyOf, integer, object, optional, string, type Value } from '../http/json-schema.ts'

/** Rows of a result: enough to read, and little enough for a page. */
const MAX_ROWS = 10_000
const DEFAULT_ROWS = 1000
/** The browser holds a download until it is whole. */
const MAX_DOWNLOAD_BYTES = 200_000_000
/** A query may take 60 s; the rest is for reading its result. */
const MAX_SECONDS = 90
const MAX_DOWNLOAD_SECONDS = 300

/** Formats of a download: ClickHouse's name, and what the file is. */
const DOWNLOADS = {
  csv: { format: 'CSVWithNames', contentType: 'text/csv; charset=utf-8' },
  parquet: { format: 'Parquet', contentType: 'application/vnd.apache.parquet' }
} as const

type DownloadBody = Value<typeof downloadBody>
type QueryBody = Omit<DownloadBody, 'format'>

const shared = {
  query: { type: 'string', minLength: 1, maxLength: 100_000, description: 'ClickHouse SQL; a trailing FORMAT clause is ignored.' },
  parameters: {
    type: 'object', maxProperties: 50, propertyNames: { pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$' },
    additionalProperties: { type: 'string', maxLength: 10_000 },
    description: 'Values of the parameters {name:Type} of the query, by name.'
  }
} as const
const queryBody = bodyOf({ ...shared, max_rows: { type: 'integer', minimum: 1, maximum: MAX_ROWS, default: DEFAULT_ROWS } }, 'query')
const downloadBody = bodyOf({ ...shared, format: { type: 'string', enum: ['csv', 'parquet'] } }, 'query', 'format')

/** A line of the answer to a query; each has one of these. */
const queryLineSchema = optional({
  query_id: { ...string, description: "First line: the query id in ClickHouse's query log." },
  progress: object({ read_rows: integer, read_bytes: integer, total_rows: { ...integer, description: '0: not estimated.' } }),
  columns: { type: 'array', items: { type: 'array', items: string }, description: 'Names, then types, of the columns.' },
  rows: {
    type: 'array', items: { type: 'array', items: {} },
    description: 'Values as JSON; 64-bit integers, decimals and NaN are strings.'
  },
  end: object({
    rows: integer, bytes: integer, read_rows: integer, read_bytes: integer, ms: { type: 'number' },
    cut: { type: ['string', 'null'], enum: ['rows', 'bytes', null], description: 'Limit that truncated the result; null if it is complete.' }
  }, { description: 'Last line of a result.' }),
  error: object({
    code: { ...integer, description: 'ClickHouse error code; 0 if it did not answer.' },
    name: string, detail: string,
    advice: { ...string, description: 'Suggested fix; empty if the detail includes it.' },
    position: { type: ['integer', 'null'], description: 'Position in the query, in bytes from 1; null if unknown.' }
  }, { description: 'Last line of a query that failed.' })
}, { $id: 'QueryLine' })

const tablesSchema = object({
  results: array(object({
    name: string, comment: string,
    columns: array(object({ name: string, type: string, comment: string }))
  }))
})

const file = { schema: { type: 'string', format: 'binary' } } as const

/**
 * SQL for analysts: queries run with the ClickHouse login of analysts, which clients never see. For keys of all
 * projects, whose events a query may read.
 */
export async function sqlRoutes (
  app: FastifyInstance, { analystUrl, queries }: { analystUrl: string, queries: RunningQueries }
): Promise<void> {
  const address = analystUrl === '' ? null : parseClickHouseUrl(analystUrl)
  // Nobody waits for an answer of a process that ends.
  app.addHook('preClose', async () => { queries.cancelAll() })
  app.addSchema(queryLineSchema)

  const routes = routesOf(app, { tag: 'sql', object: 'query' })
  // For a query too long for an address; it reads.
  const asked = { scope: 'query:read', config: { isEndless: true, recorded: 'sql' } } as const

  routes.post('/', {
    ...asked,
    summary: 'Run a query',
    description: 'Streams lines of JSON: progress, columns, rows, then an end or an error. Closing the connection cancels the query. Requires a key for all projects.',
    body: queryBody,
    answer: { description: 'Lines of JSON, each a QueryLine.', content: { 'application/x-ndjson': { schema: { $ref: 'QueryLine#' } } } }
  }, async (request, access, reply) => {
    const clickhouse = authorize(access, address)
    const query = queries.begin(access.keyHash, MAX_SECONDS)
    const stream = new PassThrough()
    // Anyone who leaves, or presses Cancel, closes the connection.
    stream.once('close', query.cancel)
    const question = toAnalystQuery(request.body, access)
    const maxRows = request.body.max_rows ?? DEFAULT_ROWS
    void answerQuery({ clickhouse, asked: question, maxRows, stream, signal: query.signal })
      .then(async (rows) => { if (rows !== undefined) await request.recordRows?.(rows) })
      .catch((err: unknown) => { if (!stream.destroyed) request.log.error({ err }, 'SQL query failed unexpectedly') })
      .finally(() => {
        query.end()
        stream.end()
      })
    return await reply.type('application/x-ndjson').header('x-accel-buffering', 'no').send(stream)
  })

  routes.post('/download', {
    ...asked,
    summary: 'Download the result of a query',
    description: `The whole result, or an error: at most ${MAX_DOWNLOAD_BYTES} bytes. In CSV, an apostrophe precedes text that a spreadsheet would run as a formula. Requires a key for all projects.`,
    body: downloadBody,
    answer: { description: 'The file.', content: { 'text/csv': file, 'application/vnd.apache.parquet': file } }
  }, async (request, access, reply) => {
    const clickhouse = authorize(access, address)
    const query = queries.begin(access.keyHash, MAX_DOWNLOAD_SECONDS)
    reply.raw.once('close', query.cancel)
    try {
      const question = toAnalystQuery(request.body, access)
      return await sendFile(reply, request.body.format, { clickhouse, asked: question, query, request })
    } catch (error) {
      query.end()
      throw toHttpError(query.signal.aborted ? query.signal.reason : error)
    }
  })

  routes.get('/tables', {
    summary: 'List the tables that queries can read', description: 'With their columns. Requires a key for all projects.', answer: tablesSchema
  }, async (request, access) => {
    const clickhouse = authorize(access, address)
    const logComment = logCommentOf(access)
    return await runQuery(queries.begin(access.keyHash, 10), async ({ signal }) =>
      ({ results: await readTables(clickhouse, { logComment, signal }) }))
  })
}

/** @throws {HttpError} 403 for a key of some projects or a viewer; 503 without a login for analysts. */
function authorize (access: Access, address: ClickHouseAddress | null): ClickHouseAddress {
  requireSql(access)
  if (address !== null) return address
  throw sqlNotSetUp()
}

/**
 * Runs a query whose answer comes whole, and gives its place back.
 *
 * @throws {HttpError} what ended the query: ClickHouse, its time, or its client.
 */
export async function runQuery<T> (query: RunningQuery, answer: (query: RunningQuery) => Promise<T>): Promise<T> {
  try {
    return await answer(query)
  } catch (error) {
    throw toHttpError(query.signal.aborted ? query.signal.reason : error)
  } finally {
    query.end()
  }
}

export function sqlNotSetUp (): HttpError {
  return new HttpError(503, 'server_error', 'sql_not_set_up',
    'The API has no ClickHouse login for analysts. Set MILLRACE_CLICKHOUSE_ANALYST_URL and restart the API.')
}

interface Download { clickhouse: ClickHouseAddress, asked: AnalystQuery, query: RunningQuery, request: FastifyRequest }

async function sendFile (
  reply: FastifyReply, kind: keyof typeof DOWNLOADS, { clickhouse, asked, query, request }: Download
): Promise<unknown> {
  const { format, contentType } = DOWNLOADS[kind]
  const answer = await askClickHouse(clickhouse, {
    ...asked, format,
    // A file must be complete: late errors have to surface before it begins.
    settings: { wait_end_of_query: '1' }
  }, { signal: query.signal, onProgress: () => {} })
  const { result_rows: rows } = JSON.parse(String(answer.headers['x-clickhouse-summary'] ?? '{}')) as { result_rows?: string }
  if (rows !== undefined) await request.recordRows?.(Number(rows))
  const limited = refuseBeyond(MAX_DOWNLOAD_BYTES)
  const sent = kind === 'csv'
    ? pipeline(answer, guardFormulas(), limited, query.end)
    : pipeline(answer, limited, query.end)
  return await reply.type(contentType).header('content-disposition', `attachment; filename="result.${kind}"`).send(sent)
}

function toAnalystQuery ({ query, parameters = {} }: QueryBody, access: Access): AnalystQuery {
  return {
    query: blankFormat(query), parameters, queryId: `sql-${randomUUID()}`, format: ROW_FORMAT, settings: {},
    logComment: logCommentOf(access)
  }
}

/** Says in ClickHouse's query log who of the analysts asked. */
export function logCommentOf ({ userId }: Access): string {
  return `management API, user ${userId}`
}

/** A query that failed as an answer says it; anything else as it is. */
export function toHttpError (error: unknown): unknown {
  if (!(error instanceof QueryFailedError)) return error
  const { code, detail, advice } = error.failure
  if (code === 0) return new HttpError(503, 'server_error', 'clickhouse_unavailable', `${detail} ${advice}`, { cause: error, action: 'retry' })
  return invalidField('query', advice === '' ? detail : `${detail.replace(/\.?$/, '.')} ${advice}`, 'query_failed', error)
}

/** Ends a file that is too large, so that the browser takes it for broken and not for whole. */
function refuseBeyond (maxBytes: number): Transform {
  let bytes = 0
  return new Transform({
    transform (chunk: Buffer, _, done) {
      bytes += chunk.length
      if (bytes > maxBytes) done(new Error(`download exceeds ${maxBytes} bytes`))
      else done(null, chunk)
    }
  })
}
