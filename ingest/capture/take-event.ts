import type { ErrorObject } from 'ajv'
import validate from '../../schema/validate-event.generated.js'
import { type PersonsUpdate, withoutProperties } from '../../schema/wire/persons-update.ts'
import {
  drop, type DropReason, type EventWarning, type Outcome, type RequestContext, type SentEvent
} from '../event.ts'
import type { NormalisedEvent, NormaliseEvent } from '../normalise/normalise-event.ts'
import { derivePersonsUpdates, type IsAnnounced } from '../normalise/persons-updates.ts'
import { type EncodedUpdate, encodeUpdate } from '../publish/persons-partitions.ts'
import { isErased, isErasedByFilter } from '../../schema/wire/erased-ids.ts'
import type { ActiveSchema } from '../enforcement/active-schemas.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import { REPLACEMENT } from '../../engines/body/storable-text.ts'

export type TakeEvent = (value: unknown, context: RequestContext) => Outcome

export interface TakeEventOptions {
  normaliseEvent: NormaliseEvent
  isAnnounced: IsAnnounced
  /** Bytes of the largest message that the server takes. */
  maxPayloadBytes: () => number
  /** Called with an unexpected error; its event counts as `not_storable`, its neighbours go on. */
  onUnexpected: (error: unknown) => void
}

/** Room for the brackets around an update, and for the headers of the dead letter that it may become. */
const UPDATE_ENVELOPE_BYTES = 4096

const NO_UPDATES: readonly EncodedUpdate[] = []

/**
 * The life of one event through ingest: validate, normalise, hold it against the schema of its name, derive what it
 * changes about persons and groups. A bad event is dropped with its reason and leaves its neighbours alone.
 *
 * @returns what becomes of the event: nothing is handed over before all that can fail is done.
 */
export function createTakeEvent (
  { normaliseEvent, isAnnounced, maxPayloadBytes, onUnexpected }: TakeEventOptions
): TakeEvent {
  return function takeEvent (value, context) {
    const fault = findFault(value)
    if (fault !== null) return drop(fault)
    try {
      // Just validated.
      return take(value as SentEvent, context)
    } catch (error) {
      onUnexpected(error)
      return drop('not_storable')
    }
  }

  function take (sent: SentEvent, context: RequestContext): Outcome {
    const normalised = normaliseEvent(sent, context)
    if ('kind' in normalised) return normalised
    const { row, properties, changedBy } = normalised
    let { warnings } = normalised
    const { erased, id } = context.project
    if (erased !== undefined && isErased(erased, id, row.distinctId, row.timestamp)) return drop('erased')
    if (erased !== undefined && erased.filters.length > 0 && isErasedByFilter(erased, id, { ...row, properties })) {
      return drop('erased')
    }
    const schema = context.project.schemas?.get(row.event)
    const failure = schema === undefined ? null : checkSchema(schema, normalised)
    const unmet = schema === undefined || failure === null ? null : { schema, failure }
    if (unmet?.schema.mode === 'reject') return drop('schema_rejected', { unmet, warnings, changedBy })
    const changes = derivePersonsUpdates(row, properties, isAnnounced, context.historical)
    if (context.withoutPersons === true) row.withoutPerson = true
    const derived = context.withoutPersons === true ? changes.filter(({ kind }) => kind === 'group' || kind === 'groupType') : changes
    let updates = NO_UPDATES
    if (derived.length > 0) ({ updates, warnings } = encodeAll(derived, warnings))
    return unmet?.schema.mode === 'quarantine'
      ? { kind: 'quarantined', row, updates, unmet, warnings, changedBy }
      : { kind: 'stored', row, updates, unmet, warnings, changedBy }
  }

  /**
   * An update has some values of the event twice, so one may not fit a message although its event does. What it changes
   * is left out then, as the pipeline leaves a change out that is too large (docs/query/persons.md); merges and
   * identification still apply.
   */
  function encodeAll (
    derived: readonly PersonsUpdate[], warnings: readonly EventWarning[]
  ): { updates: EncodedUpdate[], warnings: readonly EventWarning[] } {
    const updates = derived.map((update) => {
      const encoded = encodeUpdate(update)
      if (encoded.bytes + UPDATE_ENVELOPE_BYTES <= maxPayloadBytes()) return encoded
      const value = (): string => `a change of ${encoded.bytes} bytes does not fit a message`
      warnings = [...warnings, { reason: 'properties_too_large', value }]
      return encodeUpdate(withoutProperties(update))
    })
    return { updates, warnings }
  }
}

/** Tells whether a value of a batch is an event that can be stored: null when it is, else why not. */
function findFault (value: unknown): DropReason | null {
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

/**
 * Checks an event against the active schema of its name, and marks its row with the version.
 *
 * @returns null when its properties meet the schema.
 */
export function checkSchema (
  { check, version }: ActiveSchema, { row, properties }: NormalisedEvent
): SchemaFailure | null {
  // Lone surrogates are stored as this character: then the stored form is checked, as a later check of the table does.
  const failure = row.properties.includes(REPLACEMENT)
    ? check(JSON.parse(row.properties) as Record<string, unknown>, 'stored')
    : check(properties, 'sent')
  row.schemaVersion = failure === null ? version : -version
  return failure
}
