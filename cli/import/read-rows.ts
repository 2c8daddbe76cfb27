/** Reads the rows of exported files one by one: JSON Lines, CSV and Parquet, compressed or in a zip. */
import { isUtf8 } from 'node:buffer'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { pipeline, type Readable } from 'node:stream'
import zlib from 'node:zlib'
import { parse as parseCsv } from 'csv-parse'
import { HAS_SAFE_BROTLI } from '../../engines/body/decompress.ts'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { listZip, type ReadRow, type Rows, type SourceFile } from './list-files.ts'
import { readParquet } from './read-parquet.ts'

/** Longer lines are no events: ingest takes bodies of 20 MB. */
const MAX_LINE_BYTES = 20_000_000

const KEPT_BYTES = 10_000

/** Decompressed at a time: each takes a turn of another thread. */
const CHUNK_BYTES = 262_144

/** Rows in which the columns of a file are looked for. */
const SAMPLED_ROWS = 1000

/** The byte order mark of UTF-8, as Latin-1. */
const UTF8_MARK = '\xef\xbb\xbf'

/**
 * Reads the rows of a file. Positions count from 1.
 *
 * @throws {Error} where the file cannot be read on: it is truncated, or not of the kind that its name says.
 */
export async function * readRows (file: SourceFile): AsyncGenerator<Rows> {
  const source = createReadStream(file.path)
  file.bytesRead = () => source.bytesRead
  const head = (await peek(source)).toString('latin1', 0, 4)
  if (!head.startsWith('PAR1') && !head.startsWith('PK')) {
    yield * readText(source, file.name)
    return
  }
  source.destroy()
  yield * head.startsWith('PK') ? readZip(file) : readParquet(file)
}

async function * readText (source: Readable, name: string): AsyncGenerator<Rows> {
  const plain = await decompress(source, name)
  if (/\.[ct]sv(?:\.\w+)?$/i.test(name)) yield * readCsv(plain)
  else yield * readLines(plain)
}

/** By the first bytes; brotli has no magic bytes and is detected by extension. */
async function decompress (source: Readable, name: string): Promise<Readable> {
  const magic = (await peek(source)).toString('hex', 0, 4)
  if (magic === '' && /\.(?:parquet|zip)$/i.test(name)) throw new Error('the file is empty, so it is not a Parquet or zip file')
  if (magic === '') return source
  if (name.endsWith('.br')) {
    if (!HAS_SAFE_BROTLI) throw new Error(`Brotli is disabled on Node ${process.version}, whose decoder is unsafe`)
    return pipeline(source, zlib.createBrotliDecompress({ chunkSize: CHUNK_BYTES }), () => {})
  }
  if (magic.startsWith('1f8b')) return pipeline(source, zlib.createGunzip({ chunkSize: CHUNK_BYTES }), () => {})
  if (magic === '28b52ffd') return pipeline(source, zlib.createZstdDecompress({ chunkSize: CHUNK_BYTES }), () => {})
  const [, ending] = /\.(gz|zst)$/i.exec(name) ?? []
  if (ending !== undefined) throw new Error(`the content is not ${ending}; if it is already decompressed, rename it without .${ending}`)
  return source
}

/** The first bytes of a stream, which stay in it; none of one that is empty. */
async function peek (source: Readable): Promise<Buffer> {
  if (source.readableEnded) return Buffer.alloc(0)
  await Promise.race(['readable', 'end'].map(async (event) => await once(source, event)))
  const first = source.read() as Buffer | null
  if (first !== null) source.unshift(first)
  return first ?? Buffer.alloc(0)
}

async function * readLines (source: Readable): AsyncGenerator<Rows> {
  const head = (await peek(source)).toString()
  const first = head.trimStart()
  // Another kind of file: each of its lines would be rejected.
  if (/^PAR1|^PK/.test(head)) throw new Error('Parquet and zip files inside a zip or compressed are not supported; unpack it')
  if (first.startsWith('[')) throw new Error('the file is a JSON array; write each event to its own line, for example with jq -c \'.[]\'')
  if (first !== '' && !first.startsWith('{')) throw new Error('the file is not JSON Lines, CSV, Parquet or zip: it does not begin with {')
  if (head.startsWith('\ufeff')) source.read(UTF8_MARK.length)
  let position = 0
  let bytes = 0
  let parts: Buffer[] = []
  for await (const chunk of source as AsyncIterable<Buffer>) yield take(chunk)
  yield take(Buffer.from('\n'))

  function * take (chunk: Buffer): Generator<ReadRow> {
    let start = 0
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      const piece = chunk.subarray(start, end)
      const line = parts.length === 0 ? piece : Buffer.concat([...parts, piece])
      const isTooLong = bytes + end - start > MAX_LINE_BYTES
      parts = []
      bytes = 0
      position++
      start = end + 1
      if (isTooLong) {
        yield { position, error: `the line has more than ${MAX_LINE_BYTES} bytes`, text: line.toString('utf8', 0, KEPT_BYTES) }
        continue
      }
      const read = readLine(line, position)
      if (read !== undefined) yield read
    }
    bytes += chunk.length - start
    if (bytes <= MAX_LINE_BYTES && start < chunk.length) parts.push(chunk.subarray(start))
  }
}

function readLine (bytes: Buffer, position: number): ReadRow | undefined {
  const text = bytes.toString()
  if (text.trim() === '') return undefined
  if (!isUtf8(bytes)) return { position, error: 'the line is not UTF-8', text: bytes.toString('latin1') }
  try {
    return { position, row: parseStoredJson(text) }
  } catch {
    return { position, error: 'the line is not JSON', text }
  }
}

/** By the header: the most frequent of those that are usual, outside of quotes. */
function findDelimiter (header: string): string {
  const plain = header.replaceAll(/"[^"]*"/g, '')
  const counts = [',', ';', '\t', '|'].map((each) => ({ each, count: plain.split(each).length }))
  return counts.reduce((a, b) => b.count > a.count ? b : a).each
}

async function * readCsv (source: Readable): AsyncGenerator<Rows> {
  const first = (await peek(source)).toString('latin1')
  if (first === '') return
  const isWide = first.startsWith('\xff\xfe')
  if (first.startsWith(UTF8_MARK)) source.read(UTF8_MARK.length)
  const delimiter = findDelimiter(first.replaceAll('\0', '').split(/[\r\n]/, 1)[0] ?? '')
  const parser = parseCsv({
    delimiter,
    raw: true,
    // Parsed as bytes, because a UTF-8 parser would replace invalid sequences.
    encoding: isWide ? 'utf16le' : 'latin1',
    bom: isWide,
    skip_empty_lines: true,
    relax_column_count: true,
    relax_quotes: true,
    // A quote that is never closed makes one row of the rest of the file.
    max_record_size: 5 * MAX_LINE_BYTES
  })
  pipeline(source, parser, () => {})
  let columns: string[] | undefined
  let position = 0
  for await (const { raw, record: cells } of parser as AsyncIterable<{ raw: string, record: string[] }>) {
    const record = isWide ? cells : cells.map(decodeUtf8)
    if (columns === undefined) {
      columns = record.map((column) => column ?? '\ufffd')
      const twice = columns.find((column, index) => columns?.indexOf(column) !== index)
      if (twice !== undefined) throw new Error(`the header has the column ${JSON.stringify(twice)} twice`)
      continue
    }
    position++
    // Of UTF-16, the parser gives no text of the whole row.
    const hasLines = !isWide && cells.some((cell) => /[\r\n]/.test(cell))
    const error = hasLines && !hasClosedQuotes(raw, delimiter)
      ? `an unclosed or undoubled quote makes one row of ${raw.trim().split(/\r\n|\r|\n/).length} lines`
      : record.includes(null)
        ? 'the row is not UTF-8'
        : record.length !== columns.length && `the row has ${record.length} columns, the header has ${columns.length}`
    // Not an assignment: `__proto__` is a name like any other.
    const read = error === false
      ? { position, row: Object.fromEntries(columns.map((column, index) => [column, record[index]])) }
      : { position, error, text: JSON.stringify(record.map((cell, index) => cell ?? cells[index])) }
    yield [read].values()
  }
}

/** Whether the quotes of a row stand around whole values, and those within are doubled. */
function hasClosedQuotes (row: string, delimiter: string): boolean {
  const isEdge = (character = delimiter): boolean => character === delimiter || /[\r\n]/.test(character)
  // Every other part is outside of quotes; one without content, between two, is a doubled quote.
  const parts = row.split('"')
  return parts.length % 2 === 1 && parts.every((part, index) =>
    index % 2 === 1 || ((index === 0 || isEdge(part[0])) && (index === parts.length - 1 || isEdge(part.at(-1)))))
}

/** The text of bytes that were read as Latin-1; null: they are not UTF-8. */
function decodeUtf8 (latin1: string): string | null {
  if (/^[\0-\x7f]*$/.test(latin1)) return latin1
  const bytes = Buffer.from(latin1, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : null
}

/** The files in a zip one after the other; rows are counted through. */
async function * readZip (file: SourceFile): AsyncGenerator<Rows> {
  let before = 0
  const broken: string[] = []
  for await (const { name, offset, open } of listZip(file.path)) {
    let last = 0
    file.bytesRead = () => offset
    file.part = name
    try {
      for await (const rows of readText(await open(), name)) {
        const start = before
        yield rows.map((read) => ({ ...read, position: start + (last = read.position) }))
      }
    } catch (error) {
      broken.push(`${name} in it: ${error instanceof Error ? error.message : String(error)}`)
    }
    before += last
  }
  if (broken.length > 0) throw new Error(broken.join('; '))
}

/** Columns of the first rows, as an object of JSON need not have all. A copy is read: the file tells its progress. */
export async function sampleColumns (file: SourceFile): Promise<string[]> {
  const columns = new Set<string>()
  try {
    for await (const rows of readRows({ ...file })) {
      for (const read of rows) {
        if ('row' in read) for (const column of Object.keys(fieldsOf(read.row))) columns.add(column)
        if (read.position >= SAMPLED_ROWS) return [...columns]
      }
    }
  } catch {
    // The reader of all rows reports it.
  }
  return [...columns]
}
