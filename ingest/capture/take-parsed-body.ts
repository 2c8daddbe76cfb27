import { createCaptureV1 } from '../dialects/capture-v1.ts'
import { createMultipart, type Dialect, type DialectRequest } from '../dialects/dialect.ts'
import { createSegment } from '../dialects/segment.ts'
import type { EnforcedProject } from '../enforcement/read-projects.ts'
import { nameIdentify, readDialectEnvelope, readEnvelope, requireKey } from './envelope.ts'
import {
  drop, type DropReason, type Outcome, type RequestContext, type RequestWarnings, type Taken, type Visitor
} from '../event.ts'
import type { SentBody } from './find-events.ts'
import { WarningCollector } from '../warnings/collect-warnings.ts'
import type { TakeEvent } from './take-event.ts'

/** What a body says about who sends it. */
export interface Credentials {
  apiKey: string
  /** Project named for a personal key, as sent. */
  projectId: unknown
}

/** Who may send, and from where. */
export interface Admission {
  project: EnforcedProject
  /** Address of the client; empty when it is not to be stored. */
  ip: string
  visitor: Visitor
  /** Share of all distinct ids whose events are stored, beyond a quota; absent or 1: all. */
  sampleRate?: number
}

/** @throws {HttpError} 400, 401 or 403 for the key, 429 when the project has sent too much, 503. */
export type Admit = (credentials: Credentials) => Admission | Promise<Admission>

/** A request without its body. */
export interface BodyRequest {
  requestId: string
  query: Readonly<Record<string, unknown>>
  /** Under `/engage`, an object without an event name is an `$identify`. */
  isEngage: boolean
  /** Epoch milliseconds. */
  receivedAt: number
  /** Absent: the form of PostHog's SDKs. */
  dialect?: DialectRequest | undefined
}

/** Result of one event, for clients that get one per event. */
export interface EventResult {
  uuid: string
  /** Null when the event was taken. */
  drop: DropReason | null
  /** The dialect's word for it. */
  detail?: string | undefined
  /** How many messages the sink had when the event had been taken. */
  messages: number
}

/** What became of the events of a body. */
export interface TakenBody {
  projectId: number
  received: number
  dropped: Partial<Record<DropReason, number>>
  /** Events that were dead-lettered because they do not meet their schema; they are not among the dropped ones. */
  quarantined: number
  /** Dropped events and those that were changed; null: none. */
  warnings: RequestWarnings | null
  /** Of bodies in a dialect that answers each event. */
  results?: EventResult[]
}

/** Where the events that were taken go: the open messages of their partitions. */
export interface EventSink {
  add (event: Taken, context: RequestContext): void
  /** Messages that the events so far went to, in order; absent when nobody asks which. */
  readonly messages?: number
}

export interface TakeBodySteps {
  admit: Admit
  takeEvent: TakeEvent
  sink: EventSink
}

/**
 * Takes a body, in the order that each body goes through, on the event loop or in a worker thread:
 *
 * 1. envelope: the key, the project, the time of sending
 * 2. admission: is the key good, and has its project sent too much
 * 3. each event: validate, normalise, hand over to the sink (`take-event.ts`), and count
 *
 * A body with an error is refused as a whole, by an exception. The later pieces of a large body are read after its
 * key was checked: when several things are wrong with one, the answer may name another of them.
 *
 * @returns a promise only when the admission needs one.
 */
export function takeBody (
  body: SentBody, request: BodyRequest, { admit, takeEvent, sink }: TakeBodySteps
): TakenBody | Promise<TakenBody> {
  const { dialect: sentIn } = request
  const dialect = sentIn === undefined ? null : openDialect(sentIn)
  const envelope = sentIn === undefined ? readEnvelope(body, request.query) : readDialectEnvelope(body, sentIn)
  const admitted = admit(envelope)
  return admitted instanceof Promise ? admitted.then(takeEvents) : takeEvents(admitted)

  function takeEvents ({ project, ip, visitor, sampleRate = 1 }: Admission): TakenBody {
    const { requestId, receivedAt, isEngage } = request
    const { sentAt, historical, withoutPersons = false, isAttemptTime, retryCount } = envelope
    const context: RequestContext = {
      // An import comes from the address of whoever runs it.
      project, requestId, receivedAt, sentAt, ip: historical ? '' : ip, historical, withoutPersons, visitor, isAttemptTime, retryCount,
      sampleRate, isTextReplaced: body.isTextReplaced === true
    }
    const taken: TakenBody = { projectId: project.id, received: 0, dropped: {}, quarantined: 0, warnings: null }
    const warnings = new WarningCollector(receivedAt)
    for (const events of body.pieces) {
      // The first piece was compared when the envelope was read.
      if (taken.received > 0 && envelope.keyIsOfEvents) requireKey(events, envelope.apiKey)
      dialect?.checkEvents?.(events)
      taken.received += events.length
      for (const sent of events) {
        if (dialect !== null) takeTranslated(dialect, sent)
        else {
          const event = isEngage ? nameIdentify(sent) : sent
          finish(take(event, sent), event, sent)
        }
      }
    }
    taken.warnings = warnings.collected
    return taken

    function takeTranslated (dialect: Dialect, sent: unknown): void {
      const { event, drop: fault, uuid, detail, warnings: ofDialect = [] } = dialect.translate(sent)
      const outcome = fault === null ? take(event, sent) : drop(fault)
      finish(outcome, fault === null ? event : sent, sent)
      const dropped = outcome.kind === 'dropped' ? outcome.reason : null
      if (dropped === null) {
        for (const { reason, value } of ofDialect) warnings.add({ reason, value: () => value }, sent)
      }
      if (!dialect.answersEachEvent) return
      (taken.results ??= []).push({ uuid, drop: dropped, detail, messages: sink.messages ?? 0 })
    }

    function take (event: unknown, sent: unknown): Outcome {
      return body.oversized?.has(sent) === true ? drop('event_too_large') : takeEvent(event, context)
    }

    function finish (outcome: Outcome, event: unknown, sent: unknown): void {
      if (outcome.kind === 'dropped') taken.dropped[outcome.reason] = (taken.dropped[outcome.reason] ?? 0) + 1
      else sink.add(outcome, context)
      if (outcome.kind === 'quarantined') taken.quarantined++
      warnings.addOutcome(outcome, event)
    }
  }
}

/** A dialect for one body: it remembers what it saw of it. */
function openDialect (request: DialectRequest): Dialect {
  switch (request.name) {
    case 'capture-v1': return createCaptureV1(request)
    case 'segment': return createSegment(request)
    case 'multipart': return createMultipart()
  }
}
