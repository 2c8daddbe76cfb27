import { fieldsOf } from '../../engines/fields.ts'
import { invalidField } from '../../engines/errors.ts'
import { MAX_DISTINCT_ID_LENGTH, MAX_NAME_LENGTH } from '../../schema/wire/identity.ts'
import { isLonger } from '../../engines/body/storable-text.ts'
import type { DropReason } from '../event.ts'
import { parseTimestamp } from '../../engines/parse-timestamp.ts'
import { parseUuid } from '../../engines/uuid.ts'
import type { Dialect, DialectRequest, Translated } from './dialect.ts'

/** RFC 3339 and nothing else: other time formats are a client error. */
const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/

/** Distinct ids of programs that know none (docs/reference/contract/sdks.md 1.9): no person may come of them. */
const NOBODY = new Set([
  '0', '00000000-0000-0000-0000-000000000000', '[object object]', 'anonymous', 'anonymous-user', 'backend', 'distinct_id',
  'distinctid', 'email', 'false', 'guest', 'id', 'nan', 'none', 'not_authenticated', 'null', 'system', 'true', 'undefined', 'user'
])

/** Options of an event, and the properties that older SDKs send instead. */
const OPTIONS: Record<string, { property: string, isValid: (value: unknown) => boolean }> = {
  cookieless_mode: { property: '$cookieless_mode', isValid: isBoolean },
  disable_skew_correction: { property: '$ignore_sent_at', isValid: isBoolean },
  process_person_profile: { property: '$process_person_profile', isValid: isBoolean },
  product_tour_id: { property: '$product_tour_id', isValid: (value) => typeof value === 'string' }
}

/**
 * Capture V1 (docs/reference/contract/sdks.md 1.9): every event has a uuid, by which clients learn what became of it.
 *
 * A body with an event without a readable uuid, or with two of the same, is refused as a whole, because it could not
 * be answered. Everything else is a matter of its event.
 */
export function createCaptureV1 ({ sdk }: DialectRequest): Dialect {
  const seen = new Set<string>()
  const [lib = '', libVersion = ''] = sdk.split('/', 2)
  const ofSdk = lib === '' ? {} : { $lib: lib, ...(libVersion !== '' && { $lib_version: libVersion }) }

  return { answersEachEvent: true, checkEvents, translate }

  function checkEvents (events: readonly unknown[]): void {
    if (events.length === 0 && seen.size === 0) throw invalidField('batch', 'batch must have at least one event.', 'empty_batch')
    for (const event of events) {
      const { uuid } = fieldsOf(event)
      if (typeof uuid !== 'string' || parseUuid(uuid) === null) {
        throw invalidField('batch__uuid', 'Each event of batch must have a uuid.', 'invalid_uuid')
      }
      const name = uuid.toLowerCase()
      if (seen.has(name)) throw invalidField('batch__uuid', `Two events of batch have the uuid ${uuid}.`, 'duplicate_uuid')
      seen.add(name)
    }
  }

  function translate (sent: unknown): Translated {
    const fields = fieldsOf(sent)
    const { event, distinct_id: distinctId, timestamp, session_id: sessionId, window_id: windowId } = fields
    const uuid = String(fields.uuid)
    const fault = findFault(fields)
    if (fault !== null) return { event: null, uuid, ...fault }
    const isNobody = NOBODY.has((distinctId as string).trim().toLowerCase())
    const properties = {
      ...fieldsOf(fields.properties),
      ...ofSdk,
      ...(typeof sessionId === 'string' && { $session_id: sessionId }),
      ...(typeof windowId === 'string' && { $window_id: windowId }),
      ...toProperties(fieldsOf(fields.options)),
      ...(isNobody && { $process_person_profile: false })
    }
    return {
      event: { event, distinct_id: distinctId, uuid, timestamp, properties },
      drop: null,
      uuid,
      ...(isNobody && { detail: 'person_processing_disabled' })
    }
  }
}

function findFault (fields: Readonly<Record<string, unknown>>): { drop: DropReason, detail: string } | null {
  const { event, distinct_id: distinctId, timestamp, options, properties } = fields
  if (typeof event !== 'string' || event.trim() === '') return { drop: 'missing_event_name', detail: 'missing_event_name' }
  if (isLonger(event, MAX_NAME_LENGTH)) return { drop: 'invalid_event_name', detail: 'event_name_too_long' }
  if (typeof distinctId !== 'string' || distinctId.trim() === '') {
    return { drop: 'missing_distinct_id', detail: 'missing_distinct_id' }
  }
  if (isLonger(distinctId, MAX_DISTINCT_ID_LENGTH)) return { drop: 'invalid_distinct_id', detail: 'distinct_id_too_large' }
  if (typeof timestamp !== 'string' || !RFC_3339.test(timestamp) || parseTimestamp(timestamp) === null) {
    return { drop: 'invalid_timestamp', detail: 'invalid_event_timestamp' }
  }
  if (!isObjectOrAbsent(options) || !areValid(fieldsOf(options))) return { drop: 'invalid_options', detail: 'invalid_options' }
  if (!isObjectOrAbsent(properties)) return { drop: 'invalid_properties', detail: 'malformed_event_properties' }
  return null
}

function isObjectOrAbsent (value: unknown): boolean {
  return value === undefined || value === null || (typeof value === 'object' && !Array.isArray(value))
}

/** Options that are not known yet are ignored: a newer SDK must not lose its events. */
function areValid (options: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(OPTIONS).every(([name, { isValid }]) => {
    const value = options[name]
    return value === undefined || value === null || isValid(value)
  })
}

function isBoolean (value: unknown): boolean {
  return typeof value === 'boolean'
}

function toProperties (options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(OPTIONS).flatMap(([name, { property }]) => {
    const value = options[name]
    return value === undefined || value === null ? [] : [[property, value]]
  }))
}
