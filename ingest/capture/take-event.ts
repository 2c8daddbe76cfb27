import { type DropReason } from './drop-reason.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { derivePersonsUpdates, type IsAnnounced } from '../normalise/derive-persons-updates.ts'
import { type NormaliseEvent } from '../normalise/normalise-event.ts'
import { encodeUpdate, type EncodedUpdate } from '../publish/persons-partitions.ts'
import { type RequestContext } from './request-context.ts'
import { validateEvent, type SentEvent } from './validate-event.ts'

/** Where rows and persons updates go: the open messages of their partitions. */
export interface EventSink {
  appendRow (row: EventRow, context: RequestContext): void
  appendUpdate (update: EncodedUpdate): void
  isAnnounced: IsAnnounced
}

export type TakeEvent = (value: unknown, context: RequestContext, sink: EventSink) => DropReason | null

/**
 * The life of one event through ingest: validate, normalise, encode, derive what it
 * changes about persons and groups. A bad event is dropped with its reason and leaves
 * its neighbours alone.
 *
 * @param onUnexpected  Told of a bug; the event counts as `not_storable`, its neighbours go on.
 * @returns null when the event was taken.
 */
export function createTakeEvent (normaliseEvent: NormaliseEvent, onUnexpected: (error: unknown) => void): TakeEvent {
  return function takeEvent (value, context, sink) {
    const reason = validateEvent(value)
    if (reason !== null) return reason
    try {
      const normalised = normaliseEvent(value as SentEvent, context)
      if (typeof normalised === 'string') return normalised
      const { row, properties } = normalised
      // All that can fail comes before the first of it is handed over.
      const updates = derivePersonsUpdates(row, properties, sink.isAnnounced).map(encodeUpdate)
      sink.appendRow(row, context)
      for (const update of updates) sink.appendUpdate(update)
      return null
    } catch (error) {
      onUnexpected(error)
      return 'not_storable'
    }
  }
}
