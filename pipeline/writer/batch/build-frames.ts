import { decodeFrame, encodeFrame } from '../../../platform/native-block/frame-codec.ts'
import { pickRows } from '../../../platform/native-block/native-block.ts'
import { type BatchRange } from '../../partitions/partition-record.ts'
import { type PartitionMessage } from '../read/partition-message.ts'

/**
 * The frames of a batch range, in order: as they came, but for messages of which rows are left out or only a piece is
 * meant. Those are encoded again, which gives the same bytes each time, so a repeated batch range is the same insert.
 *
 * A message of which nothing remains has no frame: ClickHouse refuses blocks without rows.
 */
export async function buildFrames (messages: readonly PartitionMessage[], range: BatchRange): Promise<Uint8Array[]> {
  const leftOut = new Map(range.leftOut)
  const frames: Uint8Array[] = []
  for (const message of messages) {
    const ranges = leftOut.get(message.sequence)
    if (ranges === undefined && range.rows === undefined) {
      frames.push(message.frame)
      continue
    }
    const rows = listKeptRows(range.rows ?? [0, message.rows], ranges ?? [])
    if (rows.length > 0) frames.push(await encodeFrame(pickRows(await decodeFrame(message.frame), rows)))
  }
  return frames
}

/** @param leftOut  Pairs `from, to` (exclusive), ascending. */
function listKeptRows ([from, to]: readonly [number, number], leftOut: readonly number[]): number[] {
  const rows: number[] = []
  let next = 0
  for (let row = from; row < to; row++) {
    while (next < leftOut.length && row >= leftOut[next + 1]!) next += 2
    if (next >= leftOut.length || row < leftOut[next]!) rows.push(row)
  }
  return rows
}
