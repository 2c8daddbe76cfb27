import { isUtf8 } from 'node:buffer'
import { type HttpError, invalidField } from '../../engines/errors.ts'
import { hasLongNumber, parseJson, roundFields } from '../../engines/body/parse-json.ts'
import { type SplitJson, splitJsonArray } from '../../engines/body/split-json-array.ts'
import { tooManyValues } from '../../engines/body/read-body.ts'
import { isTooMuch, MAX_EVENT_VALUES, UNLIMITED, type ValueLimits } from '../../engines/body/value-limits.ts'

/** The fields of a JSON object as it was sent. */
export type Fields = Readonly<Record<string, unknown>>

/**
 * A body as the SDKs send them: one event, an array of events, or `{ api_key, batch, sent_at }`. An object with a
 * `batch` is one of events unless it has a field `event`, too: then it is an event with a field of that name.
 */
export interface SentBody {
  /** The fields beside the events, or of the only event; none beside an array. */
  fields: Fields
  /** Bytes that are not UTF-8 became U+FFFD somewhere in it. */
  isTextReplaced?: boolean
  /** The events, some at a time. The pieces of a large body are parsed while one goes through them. */
  pieces: Iterable<readonly unknown[]>
  /** Those that were not parsed because they have too many values: their small fields stand for them. */
  oversized?: ReadonlySet<unknown>
}

/** Events of a large body are parsed in pieces of about this size, so that few objects exist at a time. */
const PIECE_BYTES = 262_144

/**
 * Finds the events of a body that is parsed already: one piece.
 *
 * @param body  A JSON object or array.
 * @throws {HttpError} 400 `invalid_batch`.
 */
export function findEvents (body: unknown, isTextReplaced = false): SentBody {
  if (Array.isArray(body)) return { fields: {}, isTextReplaced, pieces: [body] }
  const fields = body as Fields
  if (!isBatch(fields.batch !== undefined, 'event' in fields)) return { fields, isTextReplaced, pieces: [[body]] }
  if (!Array.isArray(fields.batch)) throw invalidBatch()
  return { fields, isTextReplaced, pieces: [fields.batch] }
}

/**
 * Finds the events of a large body without parsing it as a whole: a hundred megabytes are never one string, nor one
 * tree of objects.
 *
 * @param json  UTF-8 text that begins with `{` or `[`, perhaps after blanks.
 * @throws {HttpError} 413 `body_too_large` for too many values; 400 `invalid_batch` or `invalid_json`; for an error
 *   inside an event, when its piece is read.
 */
export function findEventsUnparsed (json: Buffer, limits: ValueLimits = UNLIMITED): SentBody {
  const split = splitJsonArray(json, 'batch', limits)
  const { fields, names, ranges, unparsed, oversized, values } = split
  const isTextReplaced = !isUtf8(json)
  const isArray = ranges !== null && names.size === 0
  const isEvent = !isArray && !isBatch(names.has('batch'), names.has('event'))
  if (isEvent && isTooMuch(values, json.length)) {
    const event = readSmallFields(json, split, limits)
    return { fields, isTextReplaced, pieces: [[event]], oversized: new Set([event]) }
  }
  if (isEvent) return { fields, isTextReplaced, pieces: readPieces(json, [0, json.length]) }
  if (ranges === null) throw invalidBatch()
  if (unparsed.some(({ start }) => oversized.has(start))) throw tooManyValues(MAX_EVENT_VALUES)
  // Their values are not needed, but a body with an error anywhere is refused.
  for (const { start, end } of unparsed) parseRange(json, start, end)
  const placeholders = new Map<number, Fields>()
  for (const [start, end] of oversized) {
    const event = json.subarray(start, end)
    placeholders.set(start, event[0] === OPEN_OBJECT ? readSmallFields(event, splitJsonArray(event, '', limits), limits) : {})
  }
  const pieces = readPieces(json, ranges, placeholders)
  return { fields, isTextReplaced, pieces, oversized: new Set(placeholders.values()) }
}

/** Enough to say whose event it is, and which: its small fields, and those of its properties if there are few. */
function readSmallFields (event: Buffer, { fields, unparsed }: SplitJson, limits: ValueLimits): Fields {
  const range = unparsed.find(({ name }) => name === 'properties')
  if (range === undefined || event[range.start] !== OPEN_OBJECT) return fields
  try {
    const properties = splitJsonArray(event.subarray(range.start, range.end), '', limits).fields
    return { ...fields, properties }
  } catch {
    return fields
  }
}

function isBatch (hasBatch: boolean, hasEvent: boolean): boolean {
  return hasBatch && !hasEvent
}

function invalidBatch (): HttpError {
  return invalidField('batch', 'batch must be an array of events.', 'invalid_batch')
}

const OPEN_OBJECT = 0x7b

interface Piece {
  events: readonly unknown[]
  /** Index into the ranges of the first event of the next piece. */
  next: number
}

/**
 * Parses the events piece by piece: neighbours with the commas between them are an array again. The first piece is
 * remembered, because it is read for the key first and for its events later.
 *
 * @param ranges        Byte positions: start of event 0, its end, start of event 1, ...
 * @param placeholders  By their start, what stands for the events that are not parsed.
 */
function readPieces (json: Buffer, ranges: readonly number[], placeholders?: ReadonlyMap<number, Fields>): SentBody['pieces'] {
  let first: Piece | undefined
  return {
    * [Symbol.iterator] () {
      for (let at = 0; at < ranges.length;) {
        const piece = at === 0 ? first ??= parsePiece(0) : parsePiece(at)
        yield piece.events
        at = piece.next
      }
    }
  }

  function parsePiece (at: number): Piece {
    const start = ranges[at] as number
    let next = at + 2
    const placeholder = placeholders?.get(start)
    if (placeholder !== undefined) return { events: [placeholder], next }
    while (next < ranges.length && (ranges[next + 1] as number) - start <= PIECE_BYTES) {
      if (placeholders?.has(ranges[next] ?? 0) === true) break
      next += 2
    }
    return { events: parseRange(json, start, ranges[next - 1] as number), next }
  }
}

function parseRange (json: Buffer, start: number, end: number): unknown[] {
  const keepsDigits = hasLongNumber(json.subarray(start, end))
  const events = parseJson(`[${json.toString('utf8', start, end)}]`, keepsDigits) as unknown[]
  if (keepsDigits) roundFields(events)
  return events
}
