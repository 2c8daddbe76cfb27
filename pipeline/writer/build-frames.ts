import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { type Cut } from '../lanes/lane-record.ts'
import { decodeNativeBlock } from '../native/decode-native-block.ts'
import { encodeNativeBlock } from '../native/encode-native-block.ts'
import { pickRows, type NativeBlock } from '../native/native-block.ts'
import { type LaneMessage } from './lane-message.ts'

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** A frame that inflates to more is not ours, in bytes: ingest publishes near 1 MB, one huge event at most 32 MB. */
const MAX_BLOCK_BYTES = 268_435_456

/**
 * The frames of a cut, in order: as they came, but for messages of which rows are left out or only a piece is meant.
 * Those are encoded anew, which gives the same bytes each time, so a replayed cut is the same insert.
 *
 * A message of which nothing remains has no frame: ClickHouse refuses blocks without rows.
 */
export async function buildFrames (messages: readonly LaneMessage[], cut: Cut): Promise<Uint8Array[]> {
  const leftOut = new Map(cut.leftOut)
  const frames: Uint8Array[] = []
  for (const message of messages) {
    const ranges = leftOut.get(message.sequence)
    if (ranges === undefined && cut.rows === undefined) {
      frames.push(message.frame)
      continue
    }
    const rows = listKeptRows(cut.rows ?? [0, message.rows], ranges ?? [])
    if (rows.length > 0) frames.push(await encodeFrame(pickRows(await decodeFrame(message.frame), rows)))
  }
  return frames
}

/**
 * @param options.columns  Decode only the first columns.
 * @throws when the bytes are not a zstd frame of one Native block.
 */
export async function decodeFrame (frame: Uint8Array, options: { columns?: number } = {}): Promise<NativeBlock> {
  return decodeNativeBlock(await decompress(frame, { maxOutputLength: MAX_BLOCK_BYTES }), options)
}

export async function encodeFrame (block: NativeBlock): Promise<Uint8Array> {
  return await compress(encodeNativeBlock(block), { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
}

/** @param leftOut  Pairs `from, to` (exclusive), ascending. */
export function listKeptRows ([from, to]: readonly [number, number], leftOut: readonly number[]): number[] {
  const rows: number[] = []
  let next = 0
  for (let row = from; row < to; row++) {
    while (next < leftOut.length && row >= leftOut[next + 1]!) next += 2
    if (next >= leftOut.length || row < leftOut[next]!) rows.push(row)
  }
  return rows
}
