import { type ErrorObject } from 'ajv'
import validate from '../../schema/validate-event.generated.js'
import { type DropReason } from './drop-reason.ts'

/** An event that fits `schema/event.schema.json`; everything but the name and the properties may be of any type. */
export interface SentEvent {
  event: string
  /** An array is an empty one. */
  properties?: Record<string, unknown> | readonly [] | null
  distinct_id?: unknown
  $distinct_id?: unknown
  uuid?: unknown
  timestamp?: unknown
  offset?: unknown
  $set?: unknown
  $set_once?: unknown
  $unset?: unknown
}

/** Tells whether a value of a batch is an event that can be stored: null when it is, else why not. */
export function validateEvent (value: unknown): DropReason | null {
  return validate(value) ? null : toReason(validate.errors?.[0], value)
}

function toReason (error: ErrorObject | undefined, value: unknown): DropReason {
  switch (error?.instancePath) {
    case '/event':
      // A null name is a missing one; a number or an object is a mistake of another kind.
      return error.keyword === 'minLength' || (value as SentEvent).event === null ? 'missing_event_name' : 'invalid_event_name'
    case '/properties':
      return 'invalid_properties'
    default:
      return error?.keyword === 'required' ? 'missing_event_name' : 'not_an_object'
  }
}
