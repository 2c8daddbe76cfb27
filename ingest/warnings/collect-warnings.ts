import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { HttpError } from '../../engines/errors.ts'
import { cutText, toStorableText } from '../../engines/body/storable-text.ts'
import { MAX_EVENT_VALUES } from '../../engines/body/value-limits.ts'
import { describeSchemaFailure } from '../../engines/json-schema/describe-failure.ts'
import { hashDistinctId } from '../../schema/wire/event-traces.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import {
  MAX_DROPS_PER_MINUTE, MAX_SAMPLES, MAX_SAMPLE_TEXT, NO_PROJECT, type WarningReason, type WarningSample
} from '../../schema/wire/ingestion-warnings.ts'
import type { Dropped, DropReason, EventWarning, Outcome, RequestWarnings, Warned } from '../event.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { formatUuid, parseUuid } from '../../engines/uuid.ts'
import type { WarningTotals } from './warning-totals.ts'

/** Reasons by what became of an event that does not meet its schema. */
const UNMET_REASONS = { stored: 'schema_not_met', quarantined: 'schema_quarantined', dropped: 'schema_rejected' } as const

/** Collects the warnings about the events of one request. */
export class WarningCollector {
  readonly #receivedAt: number
  #collected: RequestWarnings | null = null

  /** @param receivedAt  Of the request, epoch milliseconds. */
  constructor (receivedAt: number) {
    this.#receivedAt = receivedAt
  }

  /** Null: there is nothing to say. */
  get collected (): RequestWarnings | null {
    return this.#collected
  }

  /** @param sent  The event as it was sent, whatever it is. */
  addOutcome (outcome: Outcome, sent: unknown): void {
    const { kind, warnings, changedBy, unmet } = outcome
    // Nearly every event ends here.
    if (kind === 'stored' && unmet === null && warnings.length === 0 && changedBy.length === 0) return
    for (const warning of warnings) this.add(warning, sent)
    for (const { id } of changedBy) this.#count({ reason: 'rule_changed', rule: id })
    if (unmet !== null) {
      this.#count({ reason: UNMET_REASONS[kind], schema: unmet.schema.id },
        () => describeEvent(sent, describeSchemaFailure(unmet.failure), this.#receivedAt))
    }
    if (kind === 'dropped') this.#addDropped(outcome, sent)
  }

  /** Counts a warning about an event, once for each reason. */
  add ({ reason, value }: EventWarning, sent: unknown): void {
    this.#count({ reason }, () => describeEvent(sent, value(), this.#receivedAt))
  }

  /** Counts a dropped event, and names it if it has a uuid. */
  #addDropped ({ reason, rule, unmet }: Dropped, sent: unknown): void {
    // Omits the distinct id: the rule may exist to keep exactly that out.
    if (rule !== null) this.#count({ reason, rule: rule.id }, () => ({ ...describeEvent(sent, rule.name, this.#receivedAt), distinctId: '' }))
    else if (reason === 'erased') this.#count({ reason })
    else if (unmet === null) this.add({ reason, value: () => faultOf(reason, sent) }, sent)
    const { uuid } = fieldsOf(sent)
    const words = typeof uuid === 'string' ? parseUuid(uuid) : null
    const { drops } = this.#warnings()
    if (words === null || drops.length >= MAX_DROPS_PER_MINUTE) return
    const distinctId = distinctIdOf(sent)
    drops.push({
      reason, uuid: formatUuid(words), at: this.#receivedAt, ...rule !== null && { rule: rule.name },
      distinctIdHash: distinctId === '' ? '' : hashDistinctId(distinctId)
    })
  }

  #count (warned: Warned, describe?: () => WarningSample): void {
    const { counts } = this.#warnings()
    let entry = counts.find(({ reason, rule, schema }) =>
      reason === warned.reason && rule === warned.rule && schema === warned.schema)
    if (entry === undefined) counts.push(entry = { ...warned, count: 0, samples: [] })
    entry.count++
    if (describe !== undefined && entry.samples.length < MAX_SAMPLES) entry.samples.push(describe())
  }

  #warnings (): RequestWarnings {
    return (this.#collected ??= { counts: [], drops: [] })
  }
}

/** The field of an event that is shown when it was dropped because of that. */
const FAULTY_FIELDS: Partial<Record<DropReason, string>> = {
  missing_event_name: 'event', invalid_event_name: 'event', missing_distinct_id: 'distinct_id',
  invalid_distinct_id: 'distinct_id', invalid_timestamp: 'timestamp', invalid_options: 'options',
  unknown_message_type: 'type', invalid_properties: 'properties'
}

/** In characters. An event with too many values was not parsed, and some fields stand for it. */
const SHORTEST_TOO_LARGE = 32_768

/** The value because of which an event was dropped. */
function faultOf (reason: DropReason, sent: unknown): unknown {
  const fields = fieldsOf(sent)
  if (reason === 'not_an_object') return sent
  if (reason === 'event_too_large') {
    const characters = stringifyJson(sent).length
    return characters < SHORTEST_TOO_LARGE ? `more than ${MAX_EVENT_VALUES} values` : `${characters} characters`
  }
  const name = FAULTY_FIELDS[reason]
  return name === undefined ? undefined : fields[name]
}

/** Characters of a wrong key that are kept: enough to recognise it, too few to use it. */
const KEY_CHARACTERS = 8

/** Keys within a text, such as a path that somebody mistyped. */
const KEYS = /ph[cx]_\w+/g

/** Codes of requests whose key is missing, wrong, or not for what it was used for. */
const KEY_ERRORS = new Set(['invalid_api_key', 'invalid_personal_api_key', 'permission_denied', 'invalid_project'])

/** Counts refused requests when the client is the reason: its key, its rate, what it sent, or a path nobody serves. */
export interface NoteRefusals {
  noteRefusal: (error: unknown, request: { credentials?: { apiKey: string } }) => void
  noteUnknownPath: (path: string) => void
}

/** Refused clients get an error at once, without waiting for the count that informs the project. */
export function createNoteRefusals (warnings: Pick<WarningTotals, 'addRefused'>, now: () => number): NoteRefusals {
  const note = (reason: WarningReason, value: string, projectId = NO_PROJECT): void =>
    warnings.addRefused(projectId, reason, () => describeEvent(undefined, value, now()))
  return {
    noteRefusal (error, { credentials }) {
      if (!(error instanceof HttpError)) return
      const { projectId } = error.details
      if (error.code === 'body_too_large') note('body_too_large', error.detail)
      else if (typeof projectId === 'number') note(error.code === 'quota_exceeded' ? 'quota_exceeded' : 'rate_limited', '', projectId)
      else if (KEY_ERRORS.has(error.code)) note('wrong_key', maskKey(credentials?.apiKey ?? ''))
      else if (error.status === 400 && error.code !== 'incomplete_body') note('body_unreadable', `${error.code}: ${error.detail}`)
    },
    noteUnknownPath: (path) => note('unknown_path', path.replace(KEYS, maskKey))
  }
}

function maskKey (key: string): string {
  return key.length > KEY_CHARACTERS ? `${key.slice(0, KEY_CHARACTERS)}… (${key.length} characters)` : key
}

/** What an event says of itself, whatever was sent in its place. */
function describeEvent (sent: unknown, value: unknown, receivedAt: number): WarningSample {
  const fields = fieldsOf(sent)
  const properties = fieldsOf(fields.properties)
  return {
    receivedAt,
    event: toSampleText(fields.event),
    distinctId: toSampleText(distinctIdOf(sent)),
    uuid: toSampleText(fields.uuid),
    lib: toSampleText(properties.$lib),
    libVersion: toSampleText(properties.$lib_version),
    value: toSampleText(value)
  }
}

/** The distinct id of an event as sent; empty when it has none. */
function distinctIdOf (sent: unknown): string {
  const fields = fieldsOf(sent)
  return toDistinctId(fields.distinct_id ?? fields.$distinct_id ?? fieldsOf(fields.properties).distinct_id)
}

/** A text is itself, absent is empty, anything else its JSON. */
function toSampleText (value: unknown): string {
  if (value === undefined) return ''
  return toStorableText(cutText(typeof value === 'string' ? value : stringifyJson(value), MAX_SAMPLE_TEXT))
}
