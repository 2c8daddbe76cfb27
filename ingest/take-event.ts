import { type DropReason } from './drop-reason.ts'
import { type EventRow } from './event-row.ts'
import { type NormaliseEvent } from './normalise/normalise-event.ts'
import { type RequestContext } from './request-context.ts'
import { validateEvent, type SentEvent } from './validate-event.ts'

/** Where finished rows go: the open message of their lane. */
export interface EventSink {
  append (row: EventRow, context: RequestContext): void
}

export type TakeEvent = (value: unknown, context: RequestContext, sink: EventSink) => DropReason | null

/**
 * The way of one event through ingest: validate, normalise, encode. A bad event is dropped with its reason and leaves
 * its neighbours alone.
 *
 * @returns null when the event was taken.
 */
export function createTakeEvent (normaliseEvent: NormaliseEvent): TakeEvent {
  return function takeEvent (value, context, sink) {
    const reason = validateEvent(value)
    if (reason !== null) return reason
    const normalised = normaliseEvent(value as SentEvent, context)
    if (typeof normalised === 'string') return normalised
    sink.append(normalised.row, context)
    return null
  }
}
