/** Why events were not stored as sent, and why requests were refused, in sentences that say what to do. */
import type { WarningReason } from '../../../schema/wire/ingestion-warnings.ts'
import { formatAgo, formatCounted, showText } from '../format.ts'

/** The part of a counted warning shown for refused requests. */
export interface RefusedRequests {
  reason: string
  count: number
  last_minute: string
  samples: { value: string }[]
}

type RefusedReason = 'wrong_key' | 'rate_limited' | 'quota_exceeded' | 'body_too_large' | 'body_unreadable' | 'unknown_path'

/** Why a request as a whole was refused, and what to look at. */
const REFUSED: Record<RefusedReason, [what: string, remedy: string]> = {
  wrong_key: ['with an unknown key', 'compare it with the key on Connect'],
  rate_limited: ['because the project sent too many events a second', 'some SDKs retry, others drop them; see Usage'],
  quota_exceeded: ['because the project exceeded its monthly quota', 'see Usage'],
  body_too_large: ['because the body was too large', 'send fewer or smaller events at once'],
  body_unreadable: ['because the body could not be read', 'the response says why'],
  unknown_path: ['to a path that does not exist', 'correct the address, or the host of the SDK']
}

/** True when the whole request is refused for the reason, and not an event or a change of a person. */
export function isOfRequests (reason: string): reason is RefusedReason {
  return reason in REFUSED
}

const SHOWN_VALUES = 3

/** `3 requests were refused with an unknown key (phc_abcd…), the last 2 min ago: …` */
export function describeRefused ({ reason, count, last_minute: last, samples }: RefusedRequests, now: number): string {
  const [what, remedy] = isOfRequests(reason) ? REFUSED[reason] : [`for ${reason.replaceAll('_', ' ')}`, 'see Warnings']
  const values = [...new Set(samples.map(({ value }) => value).filter((value) => value !== ''))].slice(0, SHOWN_VALUES)
  const shown = values.length === 0 ? '' : ` (${values.map((value) => showText(value, 80)).join(', ')})`
  const was = count === 1 ? 'was' : 'were'
  return `${formatCounted(count, 'request')} ${was} refused ${what}${shown}, the last ${formatAgo(last, now)}: ${remedy}.`
}

/** What became of an event or a change of a person, and why. */
const SENTENCES: Record<Exclude<WarningReason, RefusedReason>, string> = {
  not_an_object: 'Dropped: it is not an object.',
  missing_event_name: 'Dropped: it has no name.',
  invalid_event_name: 'Dropped: its name is not a string.',
  missing_distinct_id: 'Dropped: it has no distinct id.',
  invalid_distinct_id: 'Dropped: its distinct id has more than 200 characters, or is not a string.',
  invalid_timestamp: 'Dropped: its time is not an RFC 3339 time.',
  invalid_options: 'Dropped: its options are of the wrong type.',
  invalid_properties: 'Dropped: its properties are not an object.',
  unknown_message_type: 'Dropped: its message type is unknown.',
  event_too_large: 'Dropped: it exceeds the maximum message size.',
  not_storable: 'Dropped by a bug in Millrace: see the log of ingest.',
  rule_dropped: 'Dropped by a rule.',
  rule_sampled: 'Dropped: it is outside the sample that a rule keeps.',
  schema_rejected: 'Dropped: it violates its schema, whose mode is reject.',
  quota_sampled: 'Dropped: the project exceeds its quota, and the event is outside the sample.',
  erased: 'Dropped: its distinct id was erased after the event.',
  timestamp_in_future: 'Stored with the time of receipt: its time is in the future.',
  timestamp_too_old: 'Stored with the time 2000-01-01: its time is before 2000.',
  timestamp_unreadable: 'Stored with the time of receipt: its time cannot be read.',
  uuid_invalid: 'Stored under another uuid: its own is not a valid one.',
  text_replaced: 'Stored with a replacement for characters that cannot be stored.',
  rule_changed: 'Stored with changes by a rule.',
  event_name_cut: 'Stored with the first 200 characters of its name.',
  distinct_id_cut: 'Stored with the first 200 characters of its distinct id.',
  group_cut: 'Stored with a group that was cut.',
  too_many_groups: 'Stored with its first 100 groups; further ones are only in its properties.',
  column_cut: 'Stored; the column of a property has its first 8,192 characters.',
  part_left_out: 'Stored without a part that is too large.',
  property_too_deep: 'Stored without a property whose value is nested more than 200 levels deep.',
  property_not_described: 'Stored; one of its properties is not among the definitions.',
  too_many_names: 'Stored; its name, or one of its properties, is not among the definitions: the project has sent too many new names today.',
  visitor_unknown: 'Stored under the distinct id of all unknown visitors: it has no cookie, and too little to distinguish its visitor.',
  illegal_distinct_id: 'Stored, but two persons were not merged: the other id is a placeholder that clients send without an id.',
  already_identified: 'Stored, but two persons were not merged: the other person is already identified.',
  properties_too_large: 'Stored, but a person or group was not changed: its properties would be too large.',
  update_refused: 'Stored, but a person or group was not changed: the change can never be applied.',
  too_many_group_types: 'Stored, but a group was not created: the project has too many group types.',
  schema_not_met: 'Stored as sent: it violates its schema, whose mode is observe.',
  schema_quarantined: 'Kept as a dead letter: it violates its schema, whose mode is quarantine.'
}

/** What became of what was not stored as it was sent, and why; a reason that is new to this page as it is. */
export function explainWarning (reason: string): string {
  if (isOfRequests(reason)) {
    const [what, remedy] = REFUSED[reason]
    return `Refused ${what}: ${remedy}.`
  }
  return (SENTENCES as Record<string, string | undefined>)[reason] ?? `${reason.replaceAll('_', ' ')}.`
}

/** What to do about a reason for which events are not stored as sent. */
export interface Remedy {
  /** A sentence; empty when there is nothing to do. */
  sentence: string
  /** The screen where the cause is changed; null when that is with the sender. */
  screen: 'rules' | 'schemas' | 'usage' | null
}

/** Analysts count those that are stored for those that are not. */
const WEIGHED = 'Those that are stored stand for it: add up sample_weight.'

/** Remedies by reason, for dropped events only. */
const REMEDIES: Partial<Record<WarningReason, [sentence: string, screen?: Remedy['screen']]>> = {
  not_an_object: ['Send each event as an object.'],
  missing_event_name: ['Send one, as event.'],
  invalid_event_name: ['Send a string as event.'],
  missing_distinct_id: ['Send the user id as distinct_id.'],
  invalid_distinct_id: ['Send a shorter one.'],
  invalid_properties: ['Send an object as properties.'],
  invalid_timestamp: ['Send one such as 2026-01-31T12:00:00Z.'],
  invalid_options: ['Send an object as options.'],
  unknown_message_type: ['Send track, page, screen, identify, group or alias.'],
  event_too_large: ['Send less in its properties.'],
  schema_rejected: ['Fix what sends it, or the schema.', 'schemas'],
  rule_dropped: ['If it should be stored, change the rule.', 'rules'],
  rule_sampled: [WEIGHED, 'rules'],
  quota_sampled: [WEIGHED, 'usage'],
  erased: ['To store it anyway, delete the record of the erasure.']
}

/** What to do about a reason; nothing for one of a newer version of Millrace. */
export function remedyFor (reason: string): Remedy {
  const [sentence, screen = null] = REMEDIES[reason as WarningReason] ?? ['']
  return { sentence, screen }
}

/** Why events are dropped, and what to do: `Dropped by a rule. If it should be stored, change the rule.` */
export function explainDrop (reason: string): string {
  return `${explainWarning(reason)} ${remedyFor(reason).sentence}`.trimEnd()
}

/** A reason as a receipt has it: `rule_dropped: no test orders` names the rule. */
export function splitReason (reason: string): { name: string, rule: string | null } {
  const [name = '', rule] = reason.split(/: (.*)/s)
  return { name, rule: rule ?? null }
}
