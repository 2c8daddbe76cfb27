/** Which messages make one insert, and the frames that it consists of. */
import { HEADER, processOfRequest } from '../../schema/wire/streams.ts'
import type { BatchRange } from '../stream/partition-records.ts'
import { gapsWithin, type RowRange } from './row-ranges.ts'
import { joinFrames } from './insert/join-frames.ts'
import type { PartitionMessage } from './events-reader.ts'

/** Bounds of one insert. */
export interface BatchLimits {
  /** Rows at most: keeps the insert one block (ClickHouse recognises a repeated insert block by block). */
  maxRows: number
  /** Compressed bytes at most: bounds the memory of both sides. */
  maxBytes: number
  /** Pause between two batch ranges while little comes, in milliseconds: few parts for ClickHouse, and fresh enough. */
  maxAgeMs: number
}

/**
 * Characters of the headers that count events by project and minute: what they name is added to the partition's record,
 * which must stay below the megabyte of a message, and is three times as long there.
 */
const MAX_ACCEPTED_TEXT = 131_072

/** How much of the partition may share an insert while a refused row is being searched for; otherwise unlimited. */
export interface SearchLimits {
  messages: number
  rows: number
}

/** How many of the first messages make the next batch; `full` when waiting longer would not make it larger. */
export interface ChosenBatch {
  count: number
  full: boolean
}

/**
 * Chooses the longest run of messages from the start of the buffer that may share an insert: one row layout, within
 * the limits. A message beyond all limits makes a batch of its own, as does one whose headers make no sense.
 */
export function chooseBatch (
  buffer: readonly PartitionMessage[], limits: BatchLimits, search: SearchLimits
): ChosenBatch {
  const first = buffer[0]
  if (first === undefined) return { count: 0, full: false }
  let rows = 0
  let bytes = 0
  let acceptedText = 0
  let count = 0
  for (const message of buffer) {
    rows += message.rows
    bytes += message.frame.length
    acceptedText += message.headers[HEADER.accepted]?.length ?? 0
    const fits = message.layout === first.layout && first.layout !== -1 &&
      rows <= limits.maxRows && bytes <= limits.maxBytes &&
      acceptedText <= MAX_ACCEPTED_TEXT && count < search.messages
    if (count > 0 && !fits) return { count, full: true }
    count++
  }
  return { count, full: rows >= limits.maxRows || bytes >= limits.maxBytes || count >= search.messages }
}

/** Processes that a token names. */
const NAMED_PROCESSES = 16

/** The ingest processes that received the messages, in alphabetical order; the first sixteen. */
export function listProcesses (messages: readonly PartitionMessage[]): string[] {
  const processes = new Set(messages.map(({ headers }) => processOfRequest(headers[HEADER.request] ?? '')))
  return [...processes].filter((process) => process !== null).sort().slice(0, NAMED_PROCESSES)
}

/**
 * The frames of a batch range, small ones joined, without deduplicated rows and those outside of a piece. The same
 * blocks each time, so a repeated batch range is the same insert.
 *
 * A message of which nothing remains has no frame: ClickHouse refuses blocks without rows.
 */
export async function buildFrames (messages: readonly PartitionMessage[], range: BatchRange): Promise<Uint8Array[]> {
  const deduplicated = new Map(range.deduplicated)
  const frames: Uint8Array[] = []
  const kept = new Map<Uint8Array, RowRange[]>()
  for (const { sequence, frame, rows } of messages) {
    const skipped = deduplicated.get(sequence)
    if (skipped !== undefined || range.rows !== undefined) {
      const [from, to] = range.rows ?? [0, rows]
      const ranges = gapsWithin(skipped ?? [], from, to)
      if (ranges.length === 0) continue
      kept.set(frame, ranges)
    }
    frames.push(frame)
  }
  return await joinFrames(frames, kept)
}
