import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough, pipeline, Transform } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ClickHouseAddress, parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { HttpError } from '../../engines/errors.ts'
import type { PersonalKey } from '../../platform/directory/read-keys.ts'
import { requireScope } from '../../platform/scopes.ts'
import { requireSession, type SessionOptions } from '../../console/server/session-routes.ts'
import { type AnalystQuery, askClickHouse, type Progress } from './ask-clickhouse.ts'
import { guardFormulas } from './guard-formulas.ts'
import { failedUnexpectedly, type QueryFailure, QueryFailedError, tookTooLong } from './query-failure.ts'
import { QuerySlots } from './query-slots.ts'
import { blankFormat } from './query-text.ts'
import { readTables } from './read-tables.ts'
import { EXACT_VALUES, ROW_FORMAT, type SendLine, streamResult } from './stream-result.ts'

export interface SqlRoutesOptions extends Pick<SessionOptions, 'keys' | 'sessions'> {
  /** ClickHouse with the login of analysts; empty: there is no SQL here. */
  analystUrl: string
}

/** A result in the browser: enough to read, and little enough for a page. */
const MAX_ROWS = 10_000
const DEFAULT_ROWS = 1000
const MAX_RESULT_BYTES = 8_388_608
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

interface QueryBody { query: string, parameters?: Record<string, string>, max_rows?: number }
interface DownloadBody extends Omit<QueryBody, 'max_rows'> { format: keyof typeof DOWNLOADS }

const shared = {
  query: { type: 'string', minLength: 1, maxLength: 100_000 },
  parameters: {
    type: 'object', maxProperties: 50, propertyNames: { pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$' },
    additionalProperties: { type: 'string', maxLength: 10_000 }
  }
} as const
const queryBody = {
  type: 'object', required: ['query'], additionalProperties: false,
  properties: { ...shared, max_rows: { type: 'integer', minimum: 1, maximum: MAX_ROWS } }
} as const
const downloadBody = {
  type: 'object', required: ['query', 'format'], additionalProperties: false,
  properties: { ...shared, format: { type: 'string', enum: Object.keys(DOWNLOADS) } }
} as const

/** SQL for analysts: queries run here, under ClickHouse's login for analysts, which the browser never sees. */
export async function sqlRoutes (app: FastifyInstance, options: SqlRoutesOptions): Promise<void> {
  const slots = new QuerySlots()
  const address = options.analystUrl === '' ? null : parseClickHouseUrl(options.analystUrl)
  const running = new Set<AbortController>()
  // Nobody waits for an answer of a process that ends.
  app.addHook('preClose', async () => { for (const query of running) query.abort() })

  /** Takes a place for a query that ends with its time, its client, or the process. */
  function begin (key: PersonalKey, seconds: number): { signal: AbortSignal, cancel: () => void, end: () => void } {
    const release = slots.take(key.hash)
    const stop = new AbortController()
    const timer = setTimeout(() => stop.abort(new QueryFailedError(tookTooLong(seconds))), seconds * 1000)
    running.add(stop)
    return {
      signal: stop.signal,
      cancel: () => stop.abort(),
      end () {
        clearTimeout(timer)
        running.delete(stop)
        release()
      }
    }
  }

  app.post<{ Body: QueryBody }>('/console/data/sql', {
    schema: { hide: true, body: queryBody }, config: { isEndless: true }
  }, async (request, reply) => {
    const { key, clickhouse } = await authorize(request)
    const query = begin(key, MAX_SECONDS)
    const { max_rows: maxRows = DEFAULT_ROWS } = request.body
    const stream = new PassThrough()
    // Anyone who leaves, or presses Cancel, closes the connection.
    stream.once('close', query.cancel)
    void answerQuery({ clickhouse, asked: toAnalystQuery(request.body, key), maxRows, stream, signal: query.signal })
      .catch((err: unknown) => { if (!stream.destroyed) request.log.error({ err }, 'a query of the console failed unexpectedly') })
      .finally(() => {
        query.end()
        stream.end()
      })
    return await reply.type('application/x-ndjson').header('x-accel-buffering', 'no').send(stream)
  })

  app.post<{ Body: DownloadBody }>('/console/data/sql/download', {
    schema: { hide: true, body: downloadBody }, config: { isEndless: true }
  }, async (request, reply) => {
    const { key, clickhouse } = await authorize(request)
    const { format, contentType } = DOWNLOADS[request.body.format]
    const query = begin(key, MAX_DOWNLOAD_SECONDS)
    reply.raw.once('close', query.cancel)
    try {
      const answer = await askClickHouse(clickhouse, {
        ...toAnalystQuery(request.body, key), format,
        // A file is whole or is none: what fails late must be told before it begins.
        settings: { wait_end_of_query: '1' }
      }, { signal: query.signal, onProgress: () => {} })
      const limited = refuseBeyond(MAX_DOWNLOAD_BYTES)
      const file = request.body.format === 'csv'
        ? pipeline(answer, guardFormulas(), limited, () => query.end())
        : pipeline(answer, limited, () => query.end())
      return await reply.type(contentType).header('content-disposition', `attachment; filename="result.${request.body.format}"`).send(file)
    } catch (error) {
      query.end()
      throw toHttpError(query.signal.aborted ? query.signal.reason : error)
    }
  })

  app.get('/console/data/sql/tables', { schema: { hide: true } }, async (request) => {
    const { key, clickhouse } = await authorize(request)
    const query = begin(key, 10)
    try {
      return { tables: await readTables(clickhouse, { logComment: logCommentOf(key), signal: query.signal }) }
    } catch (error) {
      throw toHttpError(query.signal.aborted ? query.signal.reason : error)
    } finally {
      query.end()
    }
  })

  /** @throws {HttpError} 401, 403; 503 without a login for analysts. */
  async function authorize (request: FastifyRequest): Promise<{ key: PersonalKey, clickhouse: ClickHouseAddress }> {
    const key = await requireSession(request, options)
    requireScope(key.scopes, 'query:read')
    if (key.projectIds !== null) {
      throw new HttpError(403, 'authentication_error', 'permission_denied',
        'SQL reads the events of all projects, and this key is limited to some.')
    }
    if (address === null) {
      throw new HttpError(503, 'server_error', 'sql_not_set_up',
        'The API has no login for analysts. Set MILLRACE_CLICKHOUSE_ANALYST_URL for it, and start it again.')
    }
    return { key, clickhouse: address }
  }
}

function toAnalystQuery ({ query, parameters = {} }: Omit<QueryBody, 'max_rows'>, key: PersonalKey): AnalystQuery {
  return {
    query: blankFormat(query), parameters, queryId: `console-${randomUUID()}`, format: ROW_FORMAT, settings: {},
    logComment: logCommentOf(key)
  }
}

/** Says in ClickHouse's query log who of the analysts asked. */
function logCommentOf ({ owner }: PersonalKey): string {
  return `console, user ${owner?.userId ?? 0}`
}

interface Answering {
  clickhouse: ClickHouseAddress
  asked: AnalystQuery
  maxRows: number
  stream: PassThrough
  signal: AbortSignal
}

/** Writes progress, rows and end of a query as lines of JSON; every failure is one, too. */
async function answerQuery ({ clickhouse, asked, maxRows, stream, signal }: Answering): Promise<void> {
  const startedAt = performance.now()
  const last = { read_rows: 0, read_bytes: 0 }
  const onProgress = (progress: Progress): void => {
    Object.assign(last, progress)
    if (!stream.writableNeedDrain) stream.write(`${JSON.stringify({ progress })}\n`)
  }
  const send: SendLine = async (line) => {
    if (!stream.write(line)) await once(stream, 'drain', { signal })
  }
  stream.write(`${JSON.stringify({ query_id: asked.queryId })}\n`)
  try {
    // One row more tells whether there are more.
    const settings = { ...EXACT_VALUES, limit: String(maxRows + 1) }
    const answer = await askClickHouse(clickhouse, { ...asked, settings }, { signal, onProgress })
    const end = await streamResult(answer, { rows: maxRows, bytes: MAX_RESULT_BYTES }, send)
    // An answer that was broken off here looks like one that broke.
    signal.throwIfAborted()
    if ('detail' in end) return writeFailure(stream, end)
    // Whichever of the two was told later.
    const read = end.read_rows > last.read_rows ? {} : last
    await send(`${JSON.stringify({ end: { ...end, ...read, ms: performance.now() - startedAt } })}\n`)
  } catch (error) {
    if (stream.destroyed) return
    const cause: unknown = signal.aborted ? signal.reason : error
    writeFailure(stream, cause instanceof QueryFailedError ? cause.failure : failedUnexpectedly())
    if (!signal.aborted && !(cause instanceof QueryFailedError)) throw error
  }
}

function writeFailure (stream: PassThrough, failure: QueryFailure): void {
  stream.write(`${JSON.stringify({ error: failure })}\n`)
}

function toHttpError (error: unknown): unknown {
  if (!(error instanceof QueryFailedError)) return error
  const { code, detail, advice } = error.failure
  if (code === 0) return new HttpError(503, 'server_error', 'clickhouse_unavailable', `${detail} ${advice}`, { cause: error, action: 'retry' })
  return new HttpError(400, 'validation_error', 'query_failed', advice === '' ? detail : `${detail} ${advice}`, { attr: 'query', cause: error })
}

/** Ends a file that is too large, so that the browser takes it for broken and not for whole. */
function refuseBeyond (maxBytes: number): Transform {
  let bytes = 0
  return new Transform({
    transform (chunk: Buffer, _, done) {
      bytes += chunk.length
      if (bytes > maxBytes) done(new Error(`a download has more than ${maxBytes} bytes`))
      else done(null, chunk)
    }
  })
}
