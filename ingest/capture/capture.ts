import { type IncomingMessage } from 'node:http'
import { HttpError } from '../../platform/errors.ts'
import { type BodyHints, decodeBody } from '../../platform/http-body/decode-body.ts'
import { readBody } from '../../platform/http-body/read-body.ts'
import { type BodyBudget, type BodyLease } from '../large/body-budget.ts'
import { type FingerprintKey } from '../../schema/frame-message.ts'
import { type KeyDirectory } from '../../platform/keys/key-directory.ts'
import { type EventPartitions, type PublishFrames } from '../publish/event-partitions.ts'
import { type PersonsPartitions } from '../publish/persons-partitions.ts'
import { type RateLimit } from './rate-limit.ts'
import { type LargeBodyPool } from '../large/large-body-pool.ts'
import { type Project } from '../../platform/keys/read-keys.ts'
import { CAPTURE_SCOPE } from '../../platform/scopes.ts'
import {
  type Envelope, findEvents, nameIdentify, readEnvelope, type RequestContext, type Sender, storedAddress
} from './envelope.ts'
import { type DropReason, type IngestCounts } from './ingest-counts.ts'
import { RequestSink } from './event-sinks.ts'
import { type TakeEvent } from './take-event.ts'

export interface CaptureDeps {
  keys: KeyDirectory
  takeEvent: TakeEvent
  partitions: EventPartitions
  persons: PersonsPartitions
  /** The path of large bodies, off the event loop. */
  captureLarge: CaptureLarge
  budget: BodyBudget
  rateLimit: RateLimit
  counts: IngestCounts
  limits: { maxBodyBytes: number, maxDecompressedBytes: number }
  now: () => number
}

interface CaptureRequest {
  raw: IncomingMessage
  sender: Sender
  requestId: string
  query: Readonly<Record<string, unknown>>
  isEngage: boolean
}

export type Capture = (request: CaptureRequest) => Promise<void>

/**
 * Bodies up to this size are taken on the event loop, which they hold for a few milliseconds at most: 256 KiB on the
 * wire, 1 MiB inflated. Above, worker threads take them.
 */
const SMALL_BODY_BYTES = 262_144
const SMALL_INFLATED_BYTES = 1_048_576

/**
 * The life of a request through ingest:
 *
 * 1. read the body and unwrap it
 * 2. find its events and its key
 * 3. authenticate: which project is it, and has it sent too much
 * 4. each event: validate, normalise, encode (`take-event.ts`)
 * 5. publish, and wait until every message with one of its events is durable
 *
 * @returns when everything is durable: the caller may answer 200.
 * @throws {HttpError} what the client did wrong, or 503 when nothing can be kept.
 */
export function createCapture (deps: CaptureDeps): Capture {
  const { keys, takeEvent, partitions, persons, captureLarge, budget, rateLimit, counts, limits } = deps

  return async function capture (request) {
    let lease: BodyLease | undefined
    try {
      const admit = async (bytes: number): Promise<void> => { lease = await budget.acquire(bytes) }
      const chunks = await readRequestBytes(request, { ...limits, admit })
      const receivedAt = deps.now()
      const body = decodeSmallBody(chunks, hintsOf(request))
      if (body === IS_LARGE) return await captureLarge({ ...request, chunks, hints: hintsOf(request), receivedAt })

      const { events, fields } = findEvents(body)
      const envelope = readEnvelope(fields, events, request.query)
      const found = keys.findProject(envelope.apiKey, envelope.projectId, CAPTURE_SCOPE)
      const project = found instanceof Promise ? await found : found
      rateLimit.check(project.id)
      rateLimit.spend(project.id, events.length)
      const sink = new RequestSink(partitions, persons)
      takeEvents(events, contextOf(request, { envelope, project, receivedAt }), { sink, isEngage: request.isEngage })
      await sink.settled()
    } finally {
      lease?.release()
    }
  }

  function takeEvents (
    events: readonly unknown[], context: RequestContext, { sink, isEngage }: { sink: RequestSink, isEngage: boolean }
  ): void {
    counts.received += events.length
    for (const event of events) {
      const reason = takeEvent(isEngage ? nameIdentify(event) : event, context, sink)
      if (reason === null) counts.accepted++
      else counts.dropped[reason]++
    }
  }

  /** Decodes a body here, unless it turns out to be large. */
  function decodeSmallBody (chunks: Buffer[], hints: BodyHints): unknown {
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    counts.bytes += length
    if (length > SMALL_BODY_BYTES) return IS_LARGE
    const bytes = chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks, length)
    const maxBytes = Math.min(SMALL_INFLATED_BYTES, limits.maxDecompressedBytes)
    try {
      return decodeBody(bytes, hints, maxBytes)
    } catch (error) {
      if (error instanceof HttpError && error.status === 413 && maxBytes < limits.maxDecompressedBytes) return IS_LARGE
      throw error
    }
  }
}

const IS_LARGE = Symbol('large body')

function contextOf (
  { sender, query, requestId }: CaptureRequest,
  { envelope, project, receivedAt }: { envelope: Envelope, project: Project, receivedAt: number }
): RequestContext {
  const { sentAt, historical } = envelope
  return { project, requestId, receivedAt, sentAt, historical, ip: storedAddress(sender, query, project) }
}

/** A GET carries its body in the query. */
function readRequestBytes (
  { raw, query }: CaptureRequest, options: { maxBodyBytes: number, admit: (bytes: number) => Promise<void> }
): Promise<Buffer[]> {
  if (raw.method !== 'GET') {
    return readBody(raw, { maxBytes: options.maxBodyBytes, smallBytes: SMALL_BODY_BYTES, admit: options.admit })
  }
  const data = typeof query.data === 'string' ? query.data : ''
  // A plus sign of base64 that was not escaped arrives as a blank.
  return Promise.resolve([Buffer.from(/^\s*[{[]/.test(data) ? data : data.replaceAll(' ', '+'))])
}

function hintsOf ({ raw, query }: CaptureRequest): BodyHints {
  return {
    contentType: raw.headers['content-type'],
    contentEncoding: raw.headers['content-encoding'],
    compression: typeof query.compression === 'string' ? query.compression : undefined
  }
}

export interface CaptureLargeDeps {
  pool: LargeBodyPool
  keys: KeyDirectory
  persons: PersonsPartitions
  publishFrames: PublishFrames
  rateLimit: RateLimit
  counts: IngestCounts
  maxDecompressedBytes: number
  maxEventBytes: () => number
  partitions: number
  fingerprintKey: () => FingerprintKey | null
}

type CaptureLarge = (
  request: CaptureRequest & { chunks: Buffer[], hints: BodyHints, receivedAt: number }
) => Promise<void>

/**
 * The life of a large body: a worker thread takes it to finished frames, this thread looks up the key and publishes.
 */
export function createCaptureLarge (deps: CaptureLargeDeps): CaptureLarge {
  const { pool, keys, persons, publishFrames, rateLimit, counts } = deps

  return async function captureLarge ({ sender, requestId, query, isEngage, chunks, hints, receivedAt }) {
    let projectId = 0
    const { frames, updates, received, dropped } = await pool.run({
      chunks: chunks.map(ownMemory), hints, query, isEngage, requestId, receivedAt,
      maxDecompressedBytes: deps.maxDecompressedBytes, maxEventBytes: deps.maxEventBytes(), partitions: deps.partitions,
      fingerprintKey: deps.fingerprintKey()
    }, async (question) => {
      const project = await keys.findProject(question.apiKey, question.projectId, CAPTURE_SCOPE)
      rateLimit.check(project.id)
      projectId = project.id
      return { project, ip: storedAddress(sender, query, project) }
    })
    rateLimit.spend(projectId, received)
    counts.received += received
    let refused = 0
    for (const [reason, count] of Object.entries(dropped)) {
      counts.dropped[reason as DropReason] += count
      refused += count
    }
    counts.accepted += received - refused
    const appended = updates.map(async (update) => await persons.append(update))
    await Promise.all([publishFrames(frames, requestId), ...appended])
  }
}

/** Bytes in memory that nothing else uses, as must be to hand them to another thread. */
function ownMemory (bytes: Buffer): Uint8Array {
  if (bytes.byteLength === bytes.buffer.byteLength) return bytes
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}
