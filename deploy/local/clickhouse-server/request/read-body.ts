import { type IncomingMessage } from 'node:http'
import { PassThrough, pipeline, type Readable } from 'node:stream'
import zlib from 'node:zlib'
import { type InsertParts } from '../sql/build-statement.ts'
import { QueryError } from '../errors.ts'
import { findInsertData, type InsertCut } from './find-insert-data.ts'

/** A request's query, cut into its statement and, for inserts, its rows. */
export type QueryBody = { kind: 'statement', text: string } | InsertBody

export interface InsertBody extends InsertParts {
  kind: 'insert'
  rows: InsertRows
}

/** Rows that are still on their way. */
export interface InsertRows {
  /** Bytes that came with the statement. */
  head: Buffer
  stream: Readable
  /** HTTP's name of the compression the stream still has; undefined for none. */
  encoding: string | undefined
  /** From Content-Length; 0 when it is unknown. */
  expectedBytes: number
}

/** A head longer than this holds no INSERT that the engine would take (its own limit is 256 KiB). */
const MAX_INSERT_HEAD_BYTES = 262_144
/** Statements may be long (lists of ids), but they are held in memory. */
const MAX_STATEMENT_BYTES = 16_777_216

/**
 * Reads as much of the body as is needed to know what the query is.
 *
 * When the URL holds a whole `INSERT ... FORMAT x`, nothing is read: the body is data, in its own compression.
 * Otherwise the query is the URL's part and the body together, as on a server.
 *
 * @throws {QueryError} 229 for a statement that is too long, 344 for a compression the server cannot undo.
 */
export async function readBody (request: IncomingMessage, queryInUrl: string): Promise<QueryBody> {
  const encoding = readEncoding(request)
  const inUrl = Buffer.from(queryInUrl, 'utf8')
  const cut = findCut(inUrl)
  if (cut !== undefined && isBlank(inUrl.subarray(cut.dataStart))) {
    const expectedBytes = Number(request.headers['content-length'] ?? 0)
    return toInsert(inUrl, cut, { head: Buffer.alloc(0), stream: request, encoding, expectedBytes })
  }

  const body = encoding === undefined ? request : decode(request, encoding)
  let text = inUrl.length > 0 ? Buffer.concat([inUrl, Buffer.from('\n')]) : inUrl
  const iterator = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  for (;;) {
    const next = await iterator.next()
    if (next.done !== true) text = Buffer.concat([text, next.value])
    if (next.done === true || text.length >= MAX_INSERT_HEAD_BYTES) {
      const whole = findCut(text)
      if (whole !== undefined) {
        const head = text.subarray(whole.dataStart)
        const stream = next.done === true ? emptyStream() : streamOf(iterator)
        return toInsert(text, whole, { head, stream, encoding: undefined, expectedBytes: 0 })
      }
    }
    if (next.done === true) return { kind: 'statement', text: text.toString('utf8') }
    if (text.length > MAX_STATEMENT_BYTES) {
      throw new QueryError(229, `Query is too large: more than ${MAX_STATEMENT_BYTES} bytes that are no data of an INSERT`)
    }
  }
}

function findCut (bytes: Buffer): InsertCut | undefined {
  return findInsertData(bytes.subarray(0, MAX_INSERT_HEAD_BYTES).toString('latin1'))
}

function toInsert (bytes: Buffer, cut: InsertCut, rows: InsertRows): QueryBody {
  const head = bytes.toString('utf8', 0, cut.headEnd)
  const settings = bytes.toString('utf8', cut.headEnd, cut.headEnd + cut.settings.length)
  return { kind: 'insert', head, settings, format: cut.format, rows }
}

function isBlank (bytes: Buffer): boolean {
  return bytes.toString('latin1').trim() === ''
}

function readEncoding (request: IncomingMessage): string | undefined {
  const encoding = (request.headers['content-encoding'] ?? '').trim().toLowerCase()
  return encoding === '' || encoding === 'identity' ? undefined : encoding
}

function decode (request: Readable, encoding: string): Readable {
  const decoder = createDecoder(encoding)
  // The error surfaces where the decoder is read.
  pipeline(request, decoder, () => {})
  return decoder
}

function createDecoder (encoding: string): zlib.Gunzip | zlib.Inflate | zlib.BrotliDecompress | zlib.ZstdDecompress {
  if (encoding === 'gzip' || encoding === 'x-gzip') return zlib.createGunzip()
  if (encoding === 'deflate') return zlib.createInflate()
  if (encoding === 'br') return zlib.createBrotliDecompress()
  if (encoding === 'zstd') return zlib.createZstdDecompress()
  throw new QueryError(344, `Content-Encoding ${encoding} is supported for the rows of an INSERT only, with the statement in the URL`)
}

function emptyStream (): Readable {
  return new PassThrough().end()
}

async function * iterate (iterator: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value
}

function streamOf (iterator: AsyncIterator<Buffer>): Readable {
  return iterate(iterator) as unknown as Readable
}
