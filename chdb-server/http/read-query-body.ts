import type { IncomingMessage } from 'node:http'
import { pipeline, type Readable } from 'node:stream'
import zlib from 'node:zlib'
import type { QueryRequest } from './parse-request.ts'
import type { InsertParts } from '../statement/read-statement.ts'
import { QueryError } from './query-errors.ts'
import { scanSqlTokens } from '../statement/sql-lexer.ts'

/** A request's query: its statement and, for inserts, its rows. */
export type QueryBody = { kind: 'statement', text: string } | InsertBody

export interface InsertBody extends InsertParts {
  kind: 'insert'
  rows: InsertRows
}

/** Rows that are still on their way. */
export interface InsertRows {
  /** Bytes that came with the statement. */
  head: Buffer
  stream: AsyncIterable<Buffer>
  /** HTTP's name of the compression the stream still has; undefined for none. */
  encoding: string | undefined
  /** From Content-Length; 0 when it is unknown. */
  expectedBytes: number
}

/** Where an INSERT that carries its rows inline splits into statement and data. */
interface InsertSplit {
  /** The end of `INSERT INTO t [(columns)]`. */
  headEnd: number
  /** The SETTINGS clause between head and format, or nothing. */
  settings: string
  format: string
  /** Where the rows begin. */
  dataStart: number
}

/** A head longer than this holds no INSERT that the engine would take (its own limit is 256 KiB). */
const MAX_INSERT_HEAD_BYTES = 262_144

/**
 * Reads as much of the body as is needed to know what the query is.
 *
 * When the URL holds a whole `INSERT ... FORMAT x`, nothing is read: the body is data, in its own compression.
 * Otherwise the query is the URL's part and the body together, as on a server.
 *
 * @throws {QueryError} 229 for a statement that is too long, 344 for a compression the server cannot undo.
 */
export async function readBody (
  request: IncomingMessage, { queryInUrl }: Pick<QueryRequest, 'queryInUrl'>, maxBytes: number
): Promise<QueryBody> {
  const encoding = readEncoding(request)
  const inUrl = Buffer.from(queryInUrl, 'utf8')
  const split = findSplit(inUrl)
  if (split !== undefined && inUrl.toString('latin1', split.dataStart).trim() === '') {
    const expectedBytes = Number(request.headers['content-length'] ?? 0)
    // The engine's Brotli decoder is not safe (ENGINE_COMPRESSIONS), so its rows are decoded here.
    const rows = encoding === 'br' ? { stream: decodeBody(request), encoding: undefined } : { stream: request, encoding }
    return toInsert(inUrl, split, { head: Buffer.alloc(0), expectedBytes, ...rows })
  }

  const pieces: Buffer[] = inUrl.length > 0 ? [inUrl, Buffer.from('\n')] : []
  let bytes = inUrl.length
  let isSearched = false
  const iterator = (decodeBody(request) as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  for (;;) {
    const next = await iterator.next()
    if (next.done !== true) {
      pieces.push(next.value)
      bytes += next.value.length
    }
    if (!isSearched && (next.done === true || bytes >= MAX_INSERT_HEAD_BYTES)) {
      isSearched = true
      const text = Buffer.concat(pieces)
      const whole = findSplit(text)
      if (whole !== undefined) {
        const head = text.subarray(whole.dataStart)
        return toInsert(text, whole, { head, stream: iterate(iterator), encoding: undefined, expectedBytes: 0 })
      }
    }
    if (bytes > maxBytes) throw new QueryError(229, `Query is too large: more than ${maxBytes} bytes besides the INSERT data`)
    if (next.done === true) return { kind: 'statement', text: Buffer.concat(pieces).toString('utf8') }
  }
}

/**
 * Finds the rows of `INSERT INTO t [(columns)] [SETTINGS ...] FORMAT x <rows>` or `... VALUES <rows>`.
 *
 * Only the head is read: what follows may be binary and large. Give the text one character for each byte
 * (latin1), so that the positions are positions in the bytes.
 *
 * @returns undefined when the text is another statement, an INSERT ... SELECT, or not yet complete.
 * @throws {QueryError} 344 for FROM INFILE.
 */
export function findInsertData (text: string): InsertSplit | undefined {
  let depth = 0
  let position = 0
  let formatStart: number | undefined
  let settingsStart: number | undefined
  const split = (end: number, format: string, dataStart: number): InsertSplit => ({
    headEnd: settingsStart ?? end, settings: text.slice(settingsStart ?? end, end), format, dataStart
  })
  for (const token of scanSqlTokens(text)) {
    if (token.kind === 'comment') continue
    if (position === 0 && token.text !== 'INSERT') return undefined
    position++
    if (token.text === '(') depth++
    if (token.text === ')') depth--
    if (formatStart !== undefined) {
      if (token.kind !== 'word') return undefined
      // A word that touches the end may go on in the next piece; the caller has the whole head in hand by then.
      return split(formatStart, text.slice(token.start, token.end), skipToData(text, token.end))
    }
    // The third word is the table's name (or TABLE), whatever it looks like.
    if (depth > 0 || position <= 3 || token.kind !== 'word') continue
    if (token.text === 'VALUES') return split(token.start, 'Values', token.end)
    if (token.text === 'FORMAT') formatStart = token.start
    if (token.text === 'SETTINGS') settingsStart = token.start
    if (token.text === 'SELECT' || token.text === 'WITH') return undefined
    if (token.text === 'INFILE') throw new QueryError(344, 'FROM INFILE is not allowed')
  }
  return undefined
}

/** Rows begin after the first line break behind the format's name, or after the blanks when there is none. */
function skipToData (text: string, from: number): number {
  let at = from
  while (at < text.length && ' \t\f'.includes(text[at]!)) at++
  if (text[at] === ';') at++
  if (text[at] === '\r') at++
  if (text[at] === '\n') at++
  return at
}

function findSplit (bytes: Buffer): InsertSplit | undefined {
  return findInsertData(bytes.subarray(0, MAX_INSERT_HEAD_BYTES).toString('latin1'))
}

function toInsert (bytes: Buffer, split: InsertSplit, rows: InsertRows): QueryBody {
  const head = bytes.toString('utf8', 0, split.headEnd)
  const settings = bytes.toString('utf8', split.headEnd, split.headEnd + split.settings.length)
  return { kind: 'insert', head, settings, format: split.format, rows }
}

/** The body without the compression of HTTP. An error surfaces where it is read. */
export function decodeBody (request: IncomingMessage): Readable {
  const encoding = readEncoding(request)
  if (encoding === undefined) return request
  const decoder = createDecoder(encoding)
  // The error surfaces where the decoder is read.
  pipeline(request, decoder, () => {})
  return decoder
}

function readEncoding (request: IncomingMessage): string | undefined {
  const encoding = (request.headers['content-encoding'] ?? '').trim().toLowerCase()
  return encoding === '' || encoding === 'identity' ? undefined : encoding
}

/**
 * Whether Node's Brotli decoder ends at an invalid block switch: since 22.23.4, 24.22.1 and 26.12.1, which know that
 * error. One before them writes past its buffer (CVE-2026-111497).
 */
const HAS_SAFE_BROTLI = 'BROTLI_DECODER_ERROR_FORMAT_BLOCK_SWITCH' in zlib.constants

function createDecoder (encoding: string): zlib.Gunzip | zlib.Inflate | zlib.BrotliDecompress | zlib.ZstdDecompress {
  if (encoding === 'gzip' || encoding === 'x-gzip') return zlib.createGunzip()
  if (encoding === 'deflate') return zlib.createInflate()
  if (encoding === 'br') {
    if (HAS_SAFE_BROTLI) return zlib.createBrotliDecompress()
    throw new QueryError(344, `Content-Encoding br is not read by Node ${process.version}, whose decoder is not safe`)
  }
  if (encoding === 'zstd') return zlib.createZstdDecompress()
  throw new QueryError(344, `Content-Encoding ${encoding} is supported for the rows of an INSERT only, with the statement in the URL`)
}

async function * iterate (iterator: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value
}
