import { type MessagePort, parentPort } from 'node:worker_threads'
import { HttpError } from '../../platform/errors.ts'
import { hasLongNumber, parseJson } from '../../platform/http-body/parse-json.ts'
import { type SplitJson, splitJsonArray } from '../../platform/http-body/split-json-array.ts'
import { unwrapBody } from '../../platform/http-body/decode-body.ts'
import { createPropertyReader } from '../normalise/read-properties.ts'
import { createNormaliseEvent } from '../normalise/normalise-event.ts'
import { createTakeEvent, type TakeEvent } from '../capture/take-event.ts'
import { invalidBatch, isBatch, keyOfEvents, nameIdentify, readEnvelope, type RequestContext } from '../capture/envelope.ts'
import { FrameSink } from '../capture/event-sinks.ts'
import { type FromWorker, type KeyAnswer, type KeyQuestion, type LargeBodyJob, type LargeBodyResult, type RefusedBody, type ToWorker } from './large-body-pool.ts'

/**
 * The thread that takes large bodies, one at a time. Each job is a short conversation:
 *
 * ```
 * main: job --> worker: ask (which project?) --> main: key | noKey --> worker: done | refused | ended
 * ```
 */
const port = parentPort as MessagePort
const readProperties = createPropertyReader(Date.now)
let onKey: ((answer: KeyAnswer | null) => void) | undefined

port.on('message', (message: ToWorker) => {
  if (message.kind === 'key') onKey?.(message.answer)
  else if (message.kind === 'noKey') onKey?.(null)
  else void run(message.job)
})

async function run (job: LargeBodyJob): Promise<void> {
  try {
    const result = await takeLargeBody(job, createTakeEventOf(job), async (question) => {
      const { promise, resolve } = Promise.withResolvers<KeyAnswer | null>()
      onKey = resolve
      send({ kind: 'ask', question })
      return await promise
    })
    if (result === null) send({ kind: 'ended' })
    else send({ kind: 'done', result }, transferable(result))
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    send({ kind: 'refused', error: toRefusal(error) })
  }
}

function createTakeEventOf ({ maxEventBytes }: LargeBodyJob): TakeEvent {
  const normaliseEvent = createNormaliseEvent({ readProperties, maxEventBytes: () => maxEventBytes })
  return createTakeEvent(normaliseEvent, (error) => send({ kind: 'unexpected', error }))
}

function send (message: FromWorker, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer)
}

function transferable ({ frames }: LargeBodyResult): ArrayBuffer[] {
  return frames.map(({ payload }) => payload.buffer as ArrayBuffer)
}

function toRefusal ({ status, type, code, detail, attr }: HttpError): RefusedBody {
  return { status, type, code, detail, attr }
}

/** Events are parsed in pieces of about this size, so that few objects exist at a time. */
const PIECE_BYTES = 262_144

/**
 * Takes a large body through the steps of `capture.ts`, piece by piece, in a worker thread.
 *
 * @param askForKey  Asks which project the key stands for; null when the key was refused.
 * @returns null when the key was refused.
 * @throws {HttpError} what is wrong with the body.
 */
async function takeLargeBody (
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
  const sink = new FrameSink(job.partitions, job.fingerprintKey)
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
