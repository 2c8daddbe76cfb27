import { hasLongNumber } from '../../platform/http-body/has-long-number.ts'
import { parseJson } from '../../platform/http-body/parse-json.ts'
import { splitJsonArray, type SplitJson } from '../../platform/http-body/split-json-array.ts'
import { unwrapBody } from '../../platform/http-body/unwrap-body.ts'
import { invalidBatch, isBatch, keyOfEvents, nameIdentify, readEnvelope } from '../capture/read-envelope.ts'
import { type RequestContext } from '../capture/request-context.ts'
import { type TakeEvent } from '../capture/take-event.ts'
import { FrameSink } from './frame-sink.ts'
import { type KeyAnswer, type KeyQuestion, type LargeBodyJob, type LargeBodyResult } from './large-body-job.ts'

/** Events are parsed in pieces of about this size, so that few objects exist at a time. */
const PIECE_BYTES = 262_144

/**
 * Takes a large body through the steps of `capture.ts`, piece by piece, in a worker thread.
 *
 * @param askForKey  Asks which project the key stands for; null when the key was refused.
 * @returns null when the key was refused.
 * @throws {HttpError} what is wrong with the body.
 */
export async function takeLargeBody (
  job: LargeBodyJob, takeEvent: TakeEvent, askForKey: (question: KeyQuestion) => Promise<KeyAnswer | null>
): Promise<LargeBodyResult | null> {
  const bytes = unwrapBody(Buffer.concat(job.chunks.splice(0)), job.hints, job.maxDecompressedBytes)
  const split = splitJsonArray(bytes, 'batch')
  const ranges = eventRanges(split, bytes.length)
  let piece = parsePiece(bytes, ranges, 0)
  const envelope = readEnvelope(split.fields, piece.events, job.query)
  const answer = await askForKey({ apiKey: envelope.apiKey, projectId: envelope.projectId })
  if (answer === null) return null

  const { requestId, receivedAt } = job
  const { sentAt, historical } = envelope
  const context: RequestContext = { ...answer, requestId, receivedAt, sentAt, historical }
  const sink = new FrameSink(job.partitions)
  const result: LargeBodyResult = { frames: sink.frames, updates: sink.updates, received: 0, dropped: {} }
  const hasOwnKey = split.fields.api_key !== undefined || split.fields.token !== undefined
  while (piece.events.length > 0) {
    if (!hasOwnKey) keyOfEvents(piece.events, envelope.apiKey)
    for (const event of piece.events) {
      result.received++
      const reason = takeEvent(job.isEngage ? nameIdentify(event) : event, context, sink)
      if (reason !== null) result.dropped[reason] = (result.dropped[reason] ?? 0) + 1
    }
    piece = parsePiece(bytes, ranges, piece.next)
  }
  sink.finish()
  return result
}

/** Where the events are: the elements of the batch, or the whole body as one event. */
function eventRanges ({ ranges, names, fields }: SplitJson, length: number): number[] {
  // Beside an array there are no names.
  if (names.size === 0 && ranges !== null) return ranges
  const isEvent = names.has('event') || !names.has('batch')
  if (isEvent) return [0, length]
  if (ranges === null && isBatch({ batch: null, ...fields })) throw invalidBatch()
  return ranges ?? []
}

interface Piece {
  events: unknown[]
  /** Index into the ranges of the first event of the next piece. */
  next: number
}

/** Parses the events from `at` on, some at a time: neighbours with the commas between them are an array again. */
function parsePiece (bytes: Buffer, ranges: readonly number[], at: number): Piece {
  const start = ranges[at]
  if (start === undefined) return { events: [], next: at }
  let next = at + 2
  while (next < ranges.length && (ranges[next + 1] as number) - start <= PIECE_BYTES) next += 2
  const end = ranges[next - 1]
  const text = bytes.toString('utf8', start, end)
  return { events: parseJson(`[${text}]`, hasLongNumber(bytes.subarray(start, end))) as unknown[], next }
}
