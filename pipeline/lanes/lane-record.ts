import { type EventClass } from '../../schema/streams.ts'

/** A lane of one class: what one writer owns at a time. */
export interface Lane {
  eventClass: EventClass
  number: number
}

export function laneKey (lane: Lane): string {
  return `${lane.eventClass}.${lane.number}`
}

/**
 * What is durably known about a lane: who writes it, how far it is settled, and the insert that may be under way.
 *
 * ```
 *   lane:   ... 40  41 | 44  45  47 | 48  51 ...        (sequences of the stream; gaps belong to other lanes)
 *               settled     cut       still to come
 *                    ^ done           first = 44, last = 47
 * ```
 *
 * Every change is a compare-and-set on the record's revision, in this order:
 * 1. `cut` is recorded, 2. its rows are inserted, 3. `done` moves to its end (and the next cut is recorded with it),
 * 4. the messages are acknowledged. Whoever finds a cut in the record therefore finds all its messages in the stream,
 * and inserts exactly them again, with the same token.
 */
export interface LaneRecord {
  /** Process that writes the lane; empty when it was released. */
  owner: string
  /** Identity of the stream's sequence numbers (see `adoptRecord` in claim-lane.ts); part of every token. */
  stream: string
  /** Every message of the lane up to this sequence is stored, left out as a duplicate, or dead-lettered. */
  done: number
  /** When the stream received message `done`, epoch ms. A message at or below `done` that is younger is another one. */
  doneAt: number
  /** Rows of the message after `done` that are settled too. Above 0 only while a refused message is split by row. */
  doneRows: number
  /** The insert that was begun and not yet settled. */
  cut: Cut | null
  /** Absent in records of a version that did not count. */
  counted?: SettledCount
}

/**
 * How many messages of the lane were settled, so that the stream's numbers can be compared with what was settled: see
 * `health/count-missing.ts`. Holds only while `done` is the record's own, as versions before do not count.
 */
export interface SettledCount {
  /** Sequence after which the counting began. */
  since: number
  messages: number
  done: number
}

/** The exact content of one insert. */
export interface Cut {
  /** First and last sequence, both included. */
  first: number
  last: number
  /** How many messages they span: ClickHouse's memory of an insert depends on the number of blocks, too. */
  messages: number
  /** Rows of the message `first` = `last` that are meant, when it is split: `[from, to)`. */
  rows?: [from: number, to: number]
  /** Row layout of all its frames. */
  layout: number
  /** Version of `INSERT_SETTINGS`. */
  settings: number
  /** Rows that are not inserted because they are stored already: sequence, then pairs `from, to` (exclusive). */
  leftOut: [sequence: number, ranges: number[]][]
}

export function newLaneRecord (stream: string): LaneRecord {
  return { owner: '', stream, done: 0, doneAt: 0, doneRows: 0, cut: null, counted: { since: 0, messages: 0, done: 0 } }
}

/** What was counted up to `record.done`; begins anew where a version that does not count went on. */
export function settledCount (record: LaneRecord): SettledCount {
  const { counted, done } = record
  return counted?.done === done ? counted : { since: done, messages: 0, done }
}

/** The deduplication token of a cut: same token, same rows. */
export function cutToken (lane: Lane, stream: string, cut: Cut): string {
  const rows = cut.rows === undefined ? '' : `:${cut.rows[0]}-${cut.rows[1]}`
  return `${stream}:${laneKey(lane)}:${cut.first}-${cut.last}${rows}`
}
