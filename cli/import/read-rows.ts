/** Reads the rows of exported files one by one: JSON Lines, CSV and Parquet, compressed or in a zip. */
import { createReadStream } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { PassThrough, pipeline, type Readable, type Transform } from 'node:stream'
import zlib from 'node:zlib'
import { parse as parseCsv } from 'csv-parse'
import { type AsyncBuffer, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import yauzl from 'yauzl'
import { HAS_SAFE_BROTLI } from '../../engines/body/decompress.ts'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { MillraceError } from '../../engines/errors.ts'

/** Longer lines are no events: ingest takes bodies of 20 MB. */
const MAX_LINE_BYTES = 20_000_000

export interface SourceFile {
  path: string
  /** Below the folder that was named: the same wherever the export lies. */
  name: string
  bytes: number
}

/** A row, or why there is none at its position. */
export type ReadRow = { position: number } & ({ row: unknown } | { error: string, text: string })

/**
 * Lists the files of an export: those that are named, and all of the folders that are named, in the order of their
 * names. Hidden files are left out.
 *
 * @throws {MillraceError} `MILLRACE_IMPORT_FILE_MISSING`.
 */
export async function listFiles (given: readonly string[]): Promise<SourceFile[]> {
  const files: SourceFile[] = []
  for (const each of given) {
    const found = await stat(each).catch((cause: unknown) => {
      throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `no such file or folder: ${each}`, { cause })
    })
    if (!found.isDirectory()) {
      files.push({ path: each, name: path.basename(each), bytes: found.size })
      continue
    }
    const entries = await readdir(each, { recursive: true, withFileTypes: true })
    for (const entry of entries) {
      const file = path.join(entry.parentPath, entry.name)
      if (entry.isFile() && !entry.name.startsWith('.')) {
        files.push({ path: file, name: path.relative(each, file), bytes: (await stat(file)).size })
      }
    }
  }
  if (files.length === 0) throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `no files in ${given.join(', ')}`)
  return files.sort((a, b) => a.name < b.name ? -1 : 1)
}

/**
 * Reads the rows of a file. Positions count from 1.
 *
 * @throws {Error} where the file cannot be read on: it is truncated, or no file of the kind that its name says.
 */
export async function * readRows (file: SourceFile): AsyncGenerator<ReadRow> {
  const head = await readHead(file.path)
  if (head.startsWith('PAR1')) yield * readParquet(file)
  else if (head.startsWith('PK')) yield * readZip(file)
  else yield * readText(createReadStream(file.path), file.name)
}

async function readHead (file: string): Promise<string> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0)
    return buffer.toString('latin1', 0, bytesRead)
  } finally {
    await handle.close()
  }
}

async function * readText (source: Readable, name: string): AsyncGenerator<ReadRow> {
  const plain = await decompress(source, name)
  if (/\.csv(?:\.\w+)?$/i.test(name)) yield * readCsv(plain)
  else yield * readLines(plain)
}

/** By the first bytes; brotli has none of its own, and is told by the name. */
async function decompress (source: Readable, name: string): Promise<Readable> {
  if (name.endsWith('.br')) {
    if (!HAS_SAFE_BROTLI) throw new Error(`Brotli is not read by Node ${process.version}, whose decoder is not safe`)
    return chain(source, zlib.createBrotliDecompress())
  }
  const first = await new Promise<Buffer>((resolve, reject) => {
    source.once('error', reject)
    source.once('end', () => resolve(Buffer.alloc(0)))
    source.once('readable', () => resolve(source.read() as Buffer | null ?? Buffer.alloc(0)))
  })
  const whole = new PassThrough()
  whole.write(first)
  pipeline(source, whole, () => {})
  const magic = first.toString('hex', 0, 4)
  if (magic.startsWith('1f8b')) return chain(whole, zlib.createGunzip())
  if (magic === '28b52ffd') return chain(whole, zlib.createZstdDecompress())
  return whole
}

/** An error of the source is one of what is made of it. */
function chain (source: Readable, transform: Transform): Readable {
  pipeline(source, transform, () => {})
  return transform
}

async function * readLines (source: Readable): AsyncGenerator<ReadRow> {
  let position = 0
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of source as AsyncIterable<Buffer>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE_BYTES) throw new Error(`line ${position + lines.length + 1} has more than ${MAX_LINE_BYTES} bytes`)
    for (const line of lines) {
      position++
      if (line.trim() !== '') yield readLine(line, position)
    }
  }
  if (rest.trim() !== '') yield readLine(rest, position + 1)
}

function readLine (text: string, position: number): ReadRow {
  try {
    return { position, row: parseStoredJson(text) }
  } catch {
    return { position, error: 'the line is not JSON', text }
  }
}

async function * readCsv (source: Readable): AsyncGenerator<ReadRow> {
  const skipped: ReadRow[] = []
  let position = 0
  const parser = parseCsv({
    columns: true,
    bom: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    on_skip: (error) => { skipped.push({ position: position + 1, error: error?.message ?? 'the row is not CSV', text: '' }) }
  })
  pipeline(source, parser, () => {})
  for await (const row of parser as AsyncIterable<Record<string, string>>) {
    yield * skipped.splice(0)
    yield { position: ++position, row }
  }
  yield * skipped
}

/** A group of rows at a time: pages of one cannot be read apart. */
async function * readParquet ({ path: file, bytes }: SourceFile): AsyncGenerator<ReadRow> {
  const handle = await open(file)
  try {
    const buffer: AsyncBuffer = {
      byteLength: bytes,
      async slice (start, end = bytes) {
        const part = Buffer.alloc(end - start)
        await handle.read(part, 0, part.length, start)
        return part.buffer.slice(part.byteOffset, part.byteOffset + part.length)
      }
    }
    const metadata = await parquetMetadataAsync(buffer)
    let rowStart = 0
    for (const { num_rows: count } of metadata.row_groups) {
      const rowEnd = rowStart + Number(count)
      const rows = await parquetReadObjects({ file: buffer, metadata, compressors, rowStart, rowEnd })
      for (const [index, row] of rows.entries()) yield { position: rowStart + index + 1, row }
      rowStart = rowEnd
    }
  } finally {
    await handle.close()
  }
}

/** The files in a zip one after the other; rows are counted through. */
async function * readZip (file: SourceFile): AsyncGenerator<ReadRow> {
  const zip = await yauzl.openPromise(file.path)
  let before = 0
  try {
    for await (const entry of zip.eachEntry()) {
      if (entry.fileName.endsWith('/')) continue
      let last = 0
      for await (const read of readText(await zip.openReadStreamPromise(entry), entry.fileName)) {
        last = read.position
        yield { ...read, position: before + read.position }
      }
      before += last
    }
  } finally {
    zip.close()
  }
}
