import { HttpError } from '../../engines/errors.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { describeSchemaFailure } from '../../engines/json-schema/describe-failure.ts'
import { toDistinctId } from '../../platform/identity.ts'
import type { ActiveSchema } from '../../platform/directory/active-schemas.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import type { ActiveRule } from '../../engines/rules/apply-rules.ts'
import { cutText, toStorableText } from '../../engines/body/storable-text.ts'
import { hashDistinctId } from '../../schema/wire/event-traces.ts'
import {
  MAX_DROPS_PER_MINUTE, MAX_SAMPLE_TEXT, MAX_SAMPLES, NO_PROJECT, type WarningReason,
  type WarningSample
} from '../../schema/wire/ingestion-warnings.ts'
import { formatUuid, parseUuid } from '../normalise/uuid.ts'
import type { WarningTotals } from '../publish/warning-totals.ts'
import type {
  DefinitionCount, DefinitionId, DropReason, RequestContext, RequestWarnings, RuleReason, SchemaReason
} from '../event.ts'

/**
 * Counts an event that a rule dropped or changed. Samples do not say whom they are about: a rule may be there to keep
 * just that out.
 *
 * @param sent  A dropped event as it was sent.
 */
export function noteRule (
  context: RequestContext, reason: RuleReason, { id, name }: Pick<ActiveRule, 'id' | 'name'>, sent?: unknown
): void {
  const entry = countOne(context, reason, { rule: id })
  if (sent === undefined || entry.samples.length === MAX_SAMPLES) return
  entry.samples.push({ ...describeEvent(sent, name, context.receivedAt), distinctId: '' })
}

/** Counts an event that does not meet its schema. */
export function noteSchema (
  context: RequestContext, reason: SchemaReason, { id }: Pick<ActiveSchema, 'id'>,
  { sent, failure }: { sent: unknown, failure: SchemaFailure }
): void {
  const entry = countOne(context, reason, { schema: id })
  if (entry.samples.length === MAX_SAMPLES) return
  entry.samples.push(describeEvent(sent, describeSchemaFailure(failure), context.receivedAt))
}

/** One more of a reason and a rule or schema. A reason is one of either, so the ids are told apart. */
function countOne (
  context: RequestContext, reason: DefinitionCount['reason'], of: DefinitionId
): DefinitionCount {
  const counts = (context.warnings ??= { counts: {}, samples: [] }).definitions ??= []
  let entry = counts.find((each) => each.reason === reason && idOf(each.of) === idOf(of))
  if (entry === undefined) counts.push(entry = { of, reason, count: 0, samples: [] })
  entry.count++
  return entry
}

function idOf ({ rule, schema }: DefinitionId): number | undefined {
  return rule ?? schema
}

/**
 * Counts a warning about an event, once for each reason.
 *
 * @param sent   The event as it was sent, whatever it is.
 * @param value  What is wrong with it; called for the few cases that are shown.
 */
export function noteWarning (
  context: RequestContext, reason: WarningReason, sent: unknown, value: () => unknown
): void {
  const warnings = context.warnings ??= { counts: {}, samples: [] }
  const count = (warnings.counts[reason] ?? 0) + 1
  warnings.counts[reason] = count
  if (count <= MAX_SAMPLES) {
    warnings.samples.push({ reason, sample: describeEvent(sent, value(), context.receivedAt) })
  }
}

/** Counts a dropped event, and names it if it has an uuid. */
export function noteDropped (context: RequestContext, reason: DropReason, sent: unknown): void {
  const rule = reason === 'rule_dropped' || reason === 'rule_sampled' ? context.rule : null
  const { failedSchema, schemaFailure: failure } = context
  if (rule != null) noteRule(context, reason as RuleReason, rule, sent)
  else if (reason === 'schema_rejected' && failedSchema != null && failure != null) {
    noteSchema(context, reason, failedSchema, { sent, failure })
  } else noteReason(context, reason, sent)
  const { uuid } = fieldsOf(sent)
  const words = typeof uuid === 'string' ? parseUuid(uuid) : null
  if (words === null) return
  const drops = (context.warnings as RequestWarnings).drops ??= []
  if (drops.length >= MAX_DROPS_PER_MINUTE) return
  const distinctId = distinctIdOf(sent)
  drops.push({
    reason, uuid: formatUuid(words), at: context.receivedAt, ...rule != null && { rule: rule.name },
    distinctIdHash: distinctId === '' ? '' : hashDistinctId(distinctId)
  })
}

function noteReason (context: RequestContext, reason: DropReason, sent: unknown): void {
  noteWarning(context, reason, sent, () => {
    const { event, properties, distinct_id: distinctId } = fieldsOf(sent)
    switch (reason) {
      case 'not_an_object': return sent
      case 'missing_event_name': return event
      case 'invalid_event_name': return event
      case 'missing_distinct_id': return distinctId
      case 'invalid_distinct_id': return distinctId
      case 'invalid_timestamp': return fieldsOf(sent).timestamp
      case 'invalid_options': return fieldsOf(sent).options
      case 'unknown_message_type': return fieldsOf(sent).type
      case 'invalid_properties': return properties
      case 'event_too_large': return `${stringifyJson(properties).length} characters of properties`
      case 'not_storable':
      case 'rule_dropped':
      case 'rule_sampled':
      case 'schema_rejected':
      case 'quota_sampled': return undefined
    }
  })
}

/** Characters of a wrong key that are kept: enough to recognise it, too few to use it. */
const KEY_CHARACTERS = 8

/** Keys within a text, such as a path that somebody mistyped. */
const KEYS = /ph[cx]_\w+/g

/** Codes of requests whose key is missing, wrong, or not for what it was used for. */
const KEY_ERRORS = new Set(['invalid_api_key', 'invalid_personal_api_key', 'permission_denied', 'invalid_project'])

/** Counts a refused request when the client is the reason: its key, its rate, or what it sent. */
export type NoteRefusal = (error: unknown, request: { credentials?: { apiKey: string } }) => void

/** The client of a refused request is told, so nothing waits for the count; the project is told as well. */
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
  return { receivedAt, event: '', distinctId: '', uuid: '', lib: '', libVersion: '', value: toText(value) }
}

function describeEvent (sent: unknown, value: unknown, receivedAt: number): WarningSample {
  const fields = fieldsOf(sent)
  const properties = fieldsOf(fields.properties)
  return {
    receivedAt,
    event: toText(fields.event),
    distinctId: distinctIdOf(sent),
    uuid: toText(fields.uuid),
    lib: toText(properties.$lib),
    libVersion: toText(properties.$lib_version),
    value: toText(value)
  }
}

function distinctIdOf (sent: unknown): string {
  const fields = fieldsOf(sent)
  return toDistinctId(fields.distinct_id ?? fields.$distinct_id ?? fieldsOf(fields.properties).distinct_id)
}

function fieldsOf (value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : {}
}

/** A text is itself, absent is empty, anything else its JSON. */
function toText (value: unknown): string {
  if (value === undefined) return ''
  return toStorableText(cutText(typeof value === 'string' ? value : stringifyJson(value), MAX_SAMPLE_TEXT))
}
