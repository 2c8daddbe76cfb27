import { type IncomingMessage } from 'node:http'
import { decodeBody } from '../platform/http-body/decode-body.ts'
import { readBody } from '../platform/http-body/read-body.ts'
import { type PeopleUpdate } from '../schema/people-update.ts'
import { type EventRow } from './event-row.ts'
import { clientAddress } from './client-address.ts'
import { type IngestCounts } from './ingest-counts.ts'
import { type KeyDirectory } from './keys/key-directory.ts'
import { type IsAnnounced } from './normalise/derive-people-updates.ts'
import { type EventLanes } from './publish/event-lanes.ts'
import { type PeopleLanes } from './publish/people-lanes.ts'
import { readEnvelope } from './read-envelope.ts'
import { type RequestContext } from './request-context.ts'
import { type EventSink, type TakeEvent } from './take-event.ts'

export interface CaptureDeps {
  keys: KeyDirectory
  takeEvent: TakeEvent
  lanes: EventLanes
  people: PeopleLanes
  counts: IngestCounts
  limits: { maxBodyBytes: number, maxDecompressedBytes: number }
  now: () => number
}

export interface CaptureRequest {
  raw: IncomingMessage
  requestId: string
  query: Readonly<Record<string, unknown>>
  isEngage: boolean
}

export type Capture = (request: CaptureRequest) => Promise<void>

/**
 * The way of a request through ingest:
 *
 * 1. read the body and unwrap it
 * 2. find its events and its key
 * 3. authenticate: which project is it
 * 4. each event: validate, normalise, encode (`take-event.ts`)
 * 5. publish, and wait until every message with one of its events is durable
 *
 * @returns when everything is durable: the caller may answer 200.
 * @throws {HttpError} what the client did wrong, or 503 when nothing can be kept.
 */
export function createCapture (deps: CaptureDeps): Capture {
  const { keys, takeEvent, lanes, people, counts, limits } = deps

  return async function capture (request) {
    const bytes = await readRequestBytes(request, limits.maxBodyBytes)
    const receivedAt = deps.now()
    const body = decodeBody(bytes, hintsOf(request), limits.maxDecompressedBytes)
    const envelope = readEnvelope(body, request)
    const found = keys.resolve(envelope.apiKey, envelope.projectId)
    const project = found instanceof Promise ? await found : found

    const context: RequestContext = {
      project,
      requestId: request.requestId,
      receivedAt,
      sentAt: envelope.sentAt,
      ip: project.anonymizeIps || request.query.ip === '0' ? '' : clientAddress(request.raw),
      historical: envelope.historical
    }
    const sink = new RequestSink(lanes, people)
    counts.received += envelope.events.length
    for (const event of envelope.events) {
      const reason = takeEvent(event, context, sink)
      if (reason === null) counts.accepted++
      else counts.dropped[reason]++
    }
    await sink.settled()
  }
}

/** Remembers which messages carry the events of one request. */
class RequestSink implements EventSink {
  readonly #lanes: EventLanes
  readonly #people: PeopleLanes
  readonly isAnnounced: IsAnnounced
  #messages: Promise<void>[] = []

  constructor (lanes: EventLanes, people: PeopleLanes) {
    this.#lanes = lanes
    this.#people = people
    this.isAnnounced = people.isAnnounced
  }

  appendRow (row: EventRow, context: RequestContext): void {
    this.#await(this.#lanes.append(row, context))
  }

  appendUpdate (update: PeopleUpdate): void {
    this.#await(this.#people.append(update))
  }

  async settled (): Promise<void> {
    if (this.#messages.length === 1) return await this.#messages[0]
    await Promise.all(this.#messages)
  }

  #await (message: Promise<void>): void {
    // Neighbours mostly share a message; a repeated entry would only be awaited twice.
    if (this.#messages.at(-1) !== message) this.#messages.push(message)
  }
}

/** A GET carries its body in the query. */
async function readRequestBytes ({ raw, query }: CaptureRequest, maxBytes: number): Promise<Buffer> {
  if (raw.method !== 'GET') return await readBody(raw, maxBytes)
  const data = typeof query.data === 'string' ? query.data : ''
  // A plus sign of base64 that was not escaped arrives as a blank.
  return Buffer.from(/^\s*[{[]/.test(data) ? data : data.replaceAll(' ', '+'))
}

function hintsOf ({ raw, query }: CaptureRequest): Parameters<typeof decodeBody>[1] {
  return {
    contentType: raw.headers['content-type'],
    contentEncoding: raw.headers['content-encoding'],
    compression: typeof query.compression === 'string' ? query.compression : undefined
  }
}
