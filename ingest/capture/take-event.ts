import type { ErrorObject } from 'ajv'
import validate from '../../schema/validate-event.generated.js'
import type { ActiveSchema } from '../../platform/directory/active-schemas.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import type { DropReason, EventRow, RequestContext, SentEvent } from '../event.ts'
import { derivePersonsUpdates, type IsAnnounced } from '../normalise/persons-updates.ts'
import type { NormaliseEvent } from '../normalise/normalise-event.ts'
import { type PersonsUpdate, withoutProperties } from '../../schema/wire/persons-update.ts'
import { type EncodedUpdate, encodeUpdate } from '../publish/persons-partitions.ts'
import { checkSchema } from './check-schema.ts'
import { noteSchema, noteWarning } from './request-warnings.ts'

/** Where rows and persons updates go: the open messages of their partitions. */
export interface EventSink {
  appendRow (row: EventRow, context: RequestContext): void
  appendUpdate (update: EncodedUpdate): void
  /** Takes an event that does not meet its schema to the dead letters. */
  quarantine (row: EventRow, failure: SchemaFailure, context: RequestContext): void
  isAnnounced: IsAnnounced
  /** Messages that the events so far went to, in order; absent when nobody asks which. */
  readonly messages?: number
}

export type TakeEvent = (value: unknown, context: RequestContext, sink: EventSink) => DropReason | null

export interface TakeEventOptions {
  /** Bytes of the largest message that the server takes. */
  maxPayloadBytes: () => number
  /** Called with an unexpected error; its event counts as `not_storable`, its neighbours go on. */
  onUnexpected: (error: unknown) => void
}

/** Room for the brackets around an update, and for the headers of the dead letter that it may become. */
const UPDATE_ENVELOPE_BYTES = 4096

/**
 * The life of one event through ingest: validate, normalise, hold it against the schema of its name, encode, derive
 * what it changes about persons and groups. A bad event is dropped with its reason and leaves its neighbours alone.
 *
 * @returns null when the event was taken.
 */
export function createTakeEvent (
  normaliseEvent: NormaliseEvent, { maxPayloadBytes, onUnexpected }: TakeEventOptions
): TakeEvent {
  return function takeEvent (value, context, sink) {
    context.ruled = false
    const reason = validateEvent(value)
    if (reason !== null) return reason
    try {
      const normalised = normaliseEvent(value as SentEvent, context)
      if (typeof normalised === 'string') return normalised
      const { row, properties } = normalised
      const schema = context.project.schemas?.get(row.event)
      const failure = schema === undefined ? null : checkSchema(schema, normalised)
      const mode = failure === null ? null : (schema as ActiveSchema).mode
      if (mode === 'reject') {
        context.schemaFailure = failure
        context.failedSchema = schema as ActiveSchema
        return 'schema_rejected'
      }
      // All that can fail comes before the first of it is handed over.
      const updates = derivePersonsUpdates(row, properties, sink.isAnnounced)
        .map((update) => encode(update, value, context))
      if (mode === 'quarantine') {
        sink.quarantine(row, failure as SchemaFailure, context)
        context.quarantined = (context.quarantined ?? 0) + 1
        noteSchema(context, 'schema_quarantined', schema as ActiveSchema, { sent: value, failure: failure as SchemaFailure })
      } else {
        if (mode === 'observe') noteSchema(context, 'schema_not_met', schema as ActiveSchema, { sent: value, failure: failure as SchemaFailure })
        sink.appendRow(row, context)
      }
      for (const update of updates) sink.appendUpdate(update)
      return null
    } catch (error) {
      onUnexpected(error)
      return 'not_storable'
    }
  }

  /**
   * An update has some values of the event twice, so one may not fit a message although its event does. What it changes
   * is left out then, as the pipeline leaves a change out that is too large (docs/persons.md); who is merged with whom,
   * and identified, counts.
   */
  function encode (update: PersonsUpdate, sent: unknown, context: RequestContext): EncodedUpdate {
    const encoded = encodeUpdate(update)
    if (encoded.bytes + UPDATE_ENVELOPE_BYTES <= maxPayloadBytes()) return encoded
    noteWarning(context, 'properties_too_large', sent, () => `a change of ${encoded.bytes} bytes does not fit a message`)
    return encodeUpdate(withoutProperties(update))
  }
}

/** Tells whether a value of a batch is an event that can be stored: null when it is, else why not. */
function validateEvent (value: unknown): DropReason | null {
  return validate(value) ? null : toReason(validate.errors?.[0], value)
}

function toReason (error: ErrorObject | undefined, value: unknown): DropReason {
  switch (error?.instancePath) {
    case '/event':
      // A null name is a missing one; a number or an object is another error.
      return error.keyword === 'minLength' || (value as SentEvent).event === null ? 'missing_event_name' : 'invalid_event_name'
    case '/properties':
      return 'invalid_properties'
    default:
      return error?.keyword === 'required' ? 'missing_event_name' : 'not_an_object'
  }
}
