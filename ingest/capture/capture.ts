import { type BodyHints, parseBody, unwrapBody } from '../../engines/body/decode-body.ts'
import { readArrivedBody, readBody } from '../../engines/body/read-body.ts'
import { isDense, MAX_EVENT_VALUES, MAX_SMALL_VALUES } from '../../engines/body/value-limits.ts'
import { HttpError } from '../../engines/errors.ts'
import type { DialectRequest } from '../dialects/dialect.ts'
import type { BodyBudget, BodyLease } from '../large/body-budget.ts'
import type { BodyLimits, CaptureLarge } from '../large/capture-large.ts'
import type { Publishing } from '../publish/open-publishing.ts'
import type { Admissions, SentRequest } from './admissions.ts'
import { addressOf } from './envelope.ts'
import { findEvents, type SentBody } from './find-events.ts'
import { countTaken, type IngestCounts } from './ingest-counts.ts'
import { type CapturedEvent, RequestSink } from './request-sink.ts'
import type { TakeEvent } from './take-event.ts'
import { type BodyRequest, takeBody, type TakenBody } from './take-parsed-body.ts'

export interface CaptureDeps {
  admissions: Admissions
  counts: IngestCounts
  takeEvent: TakeEvent
  captureLarge: CaptureLarge
  /** Memory of large bodies as they come. */
  budget: BodyBudget
  publishing: Pick<Publishing, 'partitions' | 'persons' | 'quarantine' | 'warnings' | 'registry'>
  limits: BodyLimits
}

export interface CaptureRequest extends SentRequest {
  requestId: string
  isEngage: boolean
  /** Absent: the form of PostHog's SDKs. */
  dialect?: DialectRequest
  /** What became of each event of a dialect; known when everything is durable. */
  results?: CapturedEvent[]
}

/**
 * Takes a request one turn of the event loop (`setImmediate`) after its arrival, when a small body is there.
 *
 * @returns resolves when everything is durable: the caller may answer 200. Each promise in between would cost every
 *   request, so it returns one only if there is something to wait for.
 * @throws {HttpError} also by the promise: what the client did wrong, or 503 when nothing can be kept.
 */
export type Capture = (request: CaptureRequest) => Promise<unknown>

/**
 * Bodies up to this size are taken on the event loop, which they block for a few milliseconds at most: 256 KiB on the
 * wire, 1 MiB inflated, 32,768 values. Above, worker threads take them.
 */
const SMALL_BODY_BYTES = 262_144
const SMALL_INFLATED_BYTES = 1_048_576

/**
 * The life of a request through ingest:
 *
 * 1. read the body
 * 2. take it: unwrap it, find its key and its events, encode each event (`take-parsed-body.ts`). Small bodies are
 *    taken here, large ones in a worker thread (`large/`), which asks this one about the key
 * 3. count what became of its events
 * 4. publish, and wait until every message with one of its events, or with a warning about one, is durable
 */
export function createCapture (deps: CaptureDeps): Capture {
  const { admissions, counts, takeEvent, captureLarge, budget, limits } = deps
  const { warnings, registry } = deps.publishing
  const { publishedThrough } = registry

  return function capture (request) {
    if (!registry.isRegistered) {
      throw new HttpError(503, 'server_error', 'stream_unavailable', 'This process has not reached NATS since it started. Try again.')
    }
    const chunks = readAtOnce(request, limits.maxBodyBytes)
    return chunks === null ? captureAsItComes(request) : captureBytes(request, chunks)
  }

  async function captureAsItComes (request: CaptureRequest): Promise<void> {
    let lease: BodyLease | undefined
    try {
      const chunks = await readBody(request.raw, {
        maxBytes: limits.maxBodyBytes,
        smallBytes: SMALL_BODY_BYTES,
        admit: async (bytes, gone) => { lease = await budget.acquire(bytes, addressOf(request.sender), { gone }) }
      })
      await captureBytes(request, chunks)
    } finally {
      lease?.release()
    }
  }

  function captureBytes (request: CaptureRequest, chunks: Buffer[]): Promise<unknown> {
    const { requestId, query, isEngage, dialect } = request
    const bodyRequest: BodyRequest = { requestId, query, isEngage, dialect, receivedAt: publishedThrough.receivedAt() }
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    counts.bytes += length
    const body = decodeSmallBody(chunks, length, hintsOf(request), limits.maxDecompressedBytes)
    if (body !== null) return captureSmall(request, bodyRequest, body)
    const taken = captureLarge(chunks, { ...bodyRequest, hints: hintsOf(request), sender: addressOf(request.sender) }, {
      admit: (credentials) => admissions.admit(credentials, request), count
    })
    return holding(bodyRequest.receivedAt, taken.then((taken) => {
      const { results } = taken
      refuseTooLarge(taken)
      if (results !== undefined) request.results = results.map((result) => ({ ...result, isLost: false }))
    }))
  }

  function captureSmall (request: CaptureRequest, bodyRequest: BodyRequest, body: SentBody): Promise<unknown> {
    const sink = new RequestSink(deps.publishing)
    const taken = takeBody(body, bodyRequest, {
      admit: (credentials) => admissions.admit(credentials, request), takeEvent, sink
    })
    const countAndWait = (taken: TakenBody): Promise<unknown> => {
      count(taken)
      const { results, warnings: noted } = taken
      const kept = results === undefined
        ? sink.durable()
        : sink.keptEvents(results).then((events) => { request.results = events })
      if (noted === null) return kept
      return Promise.all([kept, warnings.add(taken.projectId, noted)]).then(() => refuseTooLarge(taken))
    }
    // The rows of a synchronously taken body are in open messages already, and those are in flight.
    return taken instanceof Promise ? holding(bodyRequest.receivedAt, taken.then(countAndWait)) : countAndWait(taken)
  }

  /** Keeps what was received from being passed by the watermark until the work on it has ended. */
  function holding (receivedAt: number, work: Promise<unknown>): Promise<unknown> {
    const inFlight = publishedThrough.begin(receivedAt)
    return work.finally(() => publishedThrough.end(inFlight))
  }

  function count (taken: TakenBody): void {
    admissions.spend(taken.projectId, countTaken(counts, taken) - taken.quarantined)
  }
}

/** @returns null for a body that turns out to be large. */
function decodeSmallBody (
  chunks: readonly Buffer[], length: number, hints: BodyHints, maxDecompressedBytes: number
): SentBody | null {
  if (length > SMALL_BODY_BYTES) return null
  const [first] = chunks
  const bytes = first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks, length)
  const maxBytes = Math.min(SMALL_INFLATED_BYTES, maxDecompressedBytes)
  try {
    const json = unwrapBody(bytes, hints, maxBytes, MAX_SMALL_VALUES)
    if (isDense(json)) return null
    const { value, isTextReplaced } = parseBody(json)
    return findEvents(value, isTextReplaced)
  } catch (error) {
    if (error instanceof HttpError && error.status === 413) return null
    throw error
  }
}

/**
 * If nothing else was in the body, the client gets an error: SDKs halve a batch down to such an event, and report it.
 * Clients with an answer for each event know it already.
 */
function refuseTooLarge ({ received, dropped, results }: TakenBody): void {
  if (results !== undefined || dropped.event_too_large !== received) return
  throw new HttpError(413, 'validation_error', 'event_too_large', `The event is larger than a message may be, or has more than ${MAX_EVENT_VALUES} values.`)
}

/** The bytes of a request that needs no waiting for them. A GET carries its body in the query. */
function readAtOnce ({ raw, query }: CaptureRequest, maxBytes: number): Buffer[] | null {
  if (raw.method !== 'GET') return readArrivedBody(raw, maxBytes)
  const data = typeof query.data === 'string' ? query.data : ''
  // A plus sign of base64 that was not escaped arrives as a blank.
  return [Buffer.from(/^\s*[{[]/.test(data) ? data : data.replaceAll(' ', '+'))]
}

function hintsOf ({ raw, query }: CaptureRequest): BodyHints {
  return {
    contentType: raw.headers['content-type'],
    contentEncoding: raw.headers['content-encoding'],
    compression: typeof query.compression === 'string' ? query.compression : undefined
  }
}
