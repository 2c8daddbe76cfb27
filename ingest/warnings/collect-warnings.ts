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
import type {
  DefinitionCount, DefinitionId, Dropped, DropReason, EventWarning, Outcome, RequestWarnings
} from '../event.ts'
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
    for (const { id } of changedBy) this.#count('rule_changed', { rule: id })
    if (unmet !== null) {
      const entry = this.#count(UNMET_REASONS[kind], { schema: unmet.schema.id })
      if (entry.samples.length < MAX_SAMPLES) {
        entry.samples.push(describeEvent(sent, describeSchemaFailure(unmet.failure), this.#receivedAt))
      }
    }
    if (kind === 'dropped') this.#addDropped(outcome, sent)
  }

  /** Counts a warning about an event, once for each reason. */
  add ({ reason, value }: EventWarning, sent: unknown): void {
    const { counts, samples } = this.#warnings()
    const count = (counts[reason] ?? 0) + 1
    counts[reason] = count
    if (count <= MAX_SAMPLES) samples.push({ reason, sample: describeEvent(sent, value(), this.#receivedAt) })
  }

  /** Counts a dropped event, and names it if it has a uuid. */
  #addDropped ({ reason, rule, unmet }: Dropped, sent: unknown): void {
    if (rule !== null) {
      const entry = this.#count(reason, { rule: rule.id })
      // Omits the distinct id: the rule may exist to keep exactly that out.
      const sample = (): WarningSample => ({ ...describeEvent(sent, rule.name, this.#receivedAt), distinctId: '' })
      if (entry.samples.length < MAX_SAMPLES) entry.samples.push(sample())
    } else if (unmet === null) this.add({ reason, value: () => faultOf(reason, sent) }, sent)
    const { uuid } = fieldsOf(sent)
    const words = typeof uuid === 'string' ? parseUuid(uuid) : null
    if (words === null) return
    const drops = this.#warnings().drops ??= []
    if (drops.length >= MAX_DROPS_PER_MINUTE) return
    const distinctId = distinctIdOf(sent)
    drops.push({
      reason, uuid: formatUuid(words), at: this.#receivedAt, ...rule !== null && { rule: rule.name },
      distinctIdHash: distinctId === '' ? '' : hashDistinctId(distinctId)
    })
  }

  /** One more of a reason and a rule or schema. */
  #count (reason: WarningReason, of: DefinitionId): DefinitionCount {
    const counts = this.#warnings().definitions ??= []
    let entry = counts.find((one) => one.reason === reason && one.of.rule === of.rule && one.of.schema === of.schema)
    if (entry === undefined) counts.push(entry = { of, reason, count: 0, samples: [] })
    entry.count++
    return entry
  }

  #warnings (): RequestWarnings {
    this.#collected ??= { counts: {}, samples: [] }
    return this.#collected
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

/** Counts a refused request when the client is the reason: its key, its rate, or what it sent. */
export type NoteRefusal = (error: unknown, request: { credentials?: { apiKey: string } }) => void

/** Refused clients get an error at once, without waiting for the count that informs the project. */
export function createNoteRefusal (warnings: Pick<WarningTotals, 'addRefused'>, now: () => number): NoteRefusal {
  return function noteRefusal (error, { credentials }) {
    if (!(error instanceof HttpError)) return
    const { projectId } = error.details
    if (error.code === 'body_too_large') {
      warnings.addRefused(NO_PROJECT, 'body_too_large', () => describeRefusal(now(), error.detail))
    } else if (typeof projectId === 'number') {
      const reason = error.code === 'quota_exceeded' ? 'quota_exceeded' : 'rate_limited'
      warnings.addRefused(projectId, reason, () => describeRefusal(now(), ''))
    } else if (KEY_ERRORS.has(error.code)) {
      warnings.addRefused(NO_PROJECT, 'wrong_key', () => describeRefusal(now(), maskKey(credentials?.apiKey ?? '')))
    } else if (error.status === 400 && error.code !== 'incomplete_body') {
      warnings.addRefused(NO_PROJECT, 'body_unreadable', () => describeRefusal(now(), `${error.code}: ${error.detail}`))
    }
  }
}

/** Counts a request to a path that nobody serves, which a client may have meant for events. */
export type NoteUnknownPath = (path: string) => void

export function createNoteUnknownPath (warnings: Pick<WarningTotals, 'addRefused'>, now: () => number): NoteUnknownPath {
  return function noteUnknownPath (path) {
    warnings.addRefused(NO_PROJECT, 'unknown_path', () => describeRefusal(now(), path.replace(KEYS, maskKey)))
  }
}

function maskKey (key: string): string {
  return key.length > KEY_CHARACTERS ? `${key.slice(0, KEY_CHARACTERS)}… (${key.length} characters)` : key
}

/** The sample of a request that was refused before its events were read. */
function describeRefusal (receivedAt: number, value: string): WarningSample {
  return { receivedAt, event: '', distinctId: '', uuid: '', lib: '', libVersion: '', value: toSampleText(value) }
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
