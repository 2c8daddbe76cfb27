/** Makes one frame of many small ones, so that ClickHouse pays for one block. */
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { EVENT_COLUMNS } from '../../../schema/wire/event-row.ts'
import { MAX_BLOCK_BYTES } from '../../../schema/wire/frame-codec.ts'
import { countRows, type RowRange } from '../row-ranges.ts'
import { BlockReader, BlockWriter } from './block-bytes.ts'
import { createJoinedColumn, type JoinedColumn } from './joined-columns.ts'

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/**
 * Frames that inflate to more are left alone, in bytes: some 80 events. Beside its rows a block costs ClickHouse
 * 0.3 ms, joining 3 to 5 ms a megabyte (docs/reference/benchmarks.md; frames of 160 events cost more joined than not).
 */
const MAX_SMALL_BYTES = 65_536

/** Bytes that are joined to one block: bounds memory, and the time for which the process does nothing else. */
const MAX_JOINED_BYTES = 4_194_304

/** As ingest compresses. */
const ZSTD_PARAMS = { [constants.ZSTD_c_compressionLevel]: 1 }

/**
 * Joins the small frames of a batch range, in order, behind each other; the large ones follow as they are. Nothing is
 * decoded: rows of a column are copied together, and dictionaries merged.
 *
 * The same frames give the same blocks, always: ClickHouse recognises a repeated insert by its number of blocks, too.
 * So a change of the joining requires a new version of `INSERT_SETTINGS`.
 *
 * Frames that cannot be read stay as they are: ClickHouse refuses them, and the search finds which of them it is.
 *
 * @param kept  The rows of a frame that are inserted, ascending, when they are not all.
 * @throws when a frame cannot be read of which only some rows are inserted.
 */
export async function joinFrames (
  frames: readonly Uint8Array[], kept: ReadonlyMap<Uint8Array, readonly RowRange[]> = new Map()
): Promise<Uint8Array[]> {
  const joined: Uint8Array[] = []
  const large: Uint8Array[] = []
  let group: SizedFrame[] = []
  let bytes = 0
  for (const frame of frames) {
    const size = readContentSize(frame)
    if (size > MAX_SMALL_BYTES) {
      large.push(await pickRows(frame, kept.get(frame)))
      continue
    }
    if (bytes + size > MAX_JOINED_BYTES) {
      joined.push(...await joinGroup(group, kept))
      group = []
      bytes = 0
    }
    group.push({ frame, size })
    bytes += size
  }
  joined.push(...await joinGroup(group, kept))
  return [...joined, ...large]
}

interface SizedFrame {
  frame: Uint8Array
  /** Of the block inside, in bytes. */
  size: number
}

async function pickRows (frame: Uint8Array, kept: readonly RowRange[] | undefined): Promise<Uint8Array> {
  if (kept === undefined) return frame
  const block = await decompress(frame, { maxOutputLength: MAX_BLOCK_BYTES })
  return await compressBlock(joinBlocks(block, [block.length], [kept]))
}

async function joinGroup (
  group: readonly SizedFrame[], kept: ReadonlyMap<Uint8Array, readonly RowRange[]>
): Promise<Uint8Array[]> {
  const frames = group.map(({ frame }) => frame)
  const pickEach = async (): Promise<Uint8Array[]> =>
    await Promise.all(frames.map(async (frame) => await pickRows(frame, kept.get(frame))))
  if (frames.length < 2) return await pickEach()
  const bytes = group.reduce((sum, { size }) => sum + size, 0)
  try {
    // Frames behind each other are one zstd stream. A chunk holds all of it, so that one call is enough.
    const blocks = await decompress(Buffer.concat(frames), { chunkSize: bytes + 1, maxOutputLength: bytes })
    const block = joinBlocks(blocks, group.map(({ size }) => size), frames.map((frame) => kept.get(frame)))
    return [await compressBlock(block)]
  } catch {
    return await pickEach()
  }
}

async function compressBlock (block: Buffer): Promise<Uint8Array> {
  return await compress(block, { chunkSize: 64 + (block.length >> 2), params: ZSTD_PARAMS })
}

/** Names and types as the header of a column has them, which both are plain ASCII below 128 characters. */
const HEADERS = EVENT_COLUMNS.map(({ name, type }) =>
  Buffer.from([name.length, ...Buffer.from(name), type.length, ...Buffer.from(type)]))

/**
 * Joins blocks of events into one. A column that some of them leave out has its default there; one that all leave out
 * is left out.
 *
 * @param bytes  The blocks, behind each other.
 * @param sizes  Of each of them, in bytes.
 * @param kept  Rows of each of them, ascending; undefined: all.
 * @throws when they are not blocks as ingest makes them.
 */
export function joinBlocks (
  bytes: Buffer, sizes: readonly number[], kept: readonly (readonly RowRange[] | undefined)[] = []
): Buffer {
  const reader = new BlockReader(bytes)
  const columns = EVENT_COLUMNS.map(createJoinedColumn)
  let rows = 0
  let end = 0
  sizes.forEach((size, index) => {
    rows += readBlock(reader, columns, { before: rows, size, kept: kept[index] })
    if (reader.at !== (end += size)) throw new Error('a block does not end where its frame ends')
  })
  if (end !== bytes.length) throw new Error('bytes after the last block')
  return writeBlock(bytes, columns, rows)
}

/** @returns the rows that were kept. */
function readBlock (
  reader: BlockReader, columns: readonly JoinedColumn[],
  { before, size, kept }: { before: number, size: number, kept: readonly RowRange[] | undefined }
): number {
  const count = reader.varint()
  const rows = reader.varint()
  if (rows === 0 || rows > size) throw new Error(`${rows} rows in ${size} bytes`)
  const ranges = kept ?? [[0, rows]]
  if (ranges.at(-1)![1] > rows) throw new Error(`${rows} rows, fewer than expected`)
  let next = 0
  for (let i = 0; i < count; i++) {
    while (next < columns.length && !startsWith(reader, HEADERS[next]!)) next++
    const column = columns[next]
    if (column === undefined) throw new Error('a column is not known, or not in its place')
    reader.at += HEADERS[next]!.length
    if (column.rows < before) column.fill(before - column.rows)
    column.read(reader, rows, ranges)
    next++
  }
  return countRows(ranges)
}

function startsWith ({ bytes, at }: BlockReader, header: Uint8Array): boolean {
  for (let i = 0; i < header.length; i++) if (bytes[at + i] !== header[i]) return false
  return true
}

/** Bytes of the two numbers in front of the columns. */
const MAX_BLOCK_HEADER_BYTES = 16

function writeBlock (source: Buffer, columns: readonly JoinedColumn[], rows: number): Buffer {
  const present = columns.flatMap((column, index) => column.rows > 0 ? [{ column, header: HEADERS[index]! }] : [])
  for (const { column } of present) if (column.rows < rows) column.fill(rows - column.rows)
  const writer = new BlockWriter(
    present.reduce((sum, { column, header }) => sum + header.length + column.maxBytes(), MAX_BLOCK_HEADER_BYTES))
  writer.varint(present.length)
  writer.varint(rows)
  for (const { column, header } of present) {
    writer.copy(header, 0, header.length)
    column.write(writer, source)
  }
  return writer.written
}

const ZSTD_MAGIC = 0xFD2FB528

/** Reads how large the content of a zstd frame is (RFC 8878, 3.1.1); Infinity when it does not say, or is no frame. */
function readContentSize (frame: Uint8Array): number {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  if (frame.length < 18 || view.getUint32(0, true) !== ZSTD_MAGIC) return Infinity
  const descriptor = frame[4]!
  const isSingleSegment = (descriptor & 0x20) !== 0
  const at = 5 + (isSingleSegment ? 0 : 1) + [0, 1, 2, 4][descriptor & 3]!
  switch (descriptor >> 6) {
    case 0: return isSingleSegment ? frame[at]! : Infinity
    case 1: return view.getUint16(at, true) + 256
    case 2: return view.getUint32(at, true)
    default: return Number(view.getBigUint64(at, true))
  }
}
