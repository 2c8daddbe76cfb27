import type { WarningReason } from '../../../schema/wire/ingestion-warnings.ts'
import { explainWarning } from './warning-words.ts'

/** What to do about a reason for which events are not stored as sent. */
export interface Remedy {
  /** A sentence; empty when there is nothing to do. */
  sentence: string
  /** The screen where the cause is changed; null when that is with the sender. */
  screen: 'rules' | 'schemas' | 'usage' | null
}

/** Analysts count those that are stored for those that are not. */
const WEIGHED = 'Those that are stored stand for it: add up sample_weight.'

/** Of reasons for which an event is dropped: what is stored in another form has no need of one. */
const REMEDIES: Partial<Record<WarningReason, [sentence: string, screen?: Remedy['screen']]>> = {
  not_an_object: ['Send each event as an object.'],
  missing_event_name: ['Send one, as event.'],
  invalid_event_name: ['Send a string as event.'],
  missing_distinct_id: ['Send whom it is about, as distinct_id.'],
  invalid_distinct_id: ['Send a shorter one.'],
  invalid_properties: ['Send an object as properties.'],
  invalid_timestamp: ['Send one such as 2026-01-31T12:00:00Z.'],
  invalid_options: ['Send an object as options.'],
  unknown_message_type: ['Send track, page, screen, identify, group or alias.'],
  event_too_large: ['Send less in its properties.'],
  schema_rejected: ['Mend what sends it, or the schema.', 'schemas'],
  rule_dropped: ['If it should be stored, change the rule.', 'rules'],
  rule_sampled: [WEIGHED, 'rules'],
  quota_sampled: [WEIGHED, 'usage']
}

/** What to do about a reason; nothing for one of a newer version of Millrace. */
export function remedyFor (reason: string): Remedy {
  const [sentence, screen = null] = REMEDIES[reason as WarningReason] ?? ['']
  return { sentence, screen }
}

/** Why events are dropped, and what to do: `Dropped: a rule drops it. If it should be stored, change the rule.` */
export function explainDrop (reason: string): string {
  return `${explainWarning(reason)} ${remedyFor(reason).sentence}`.trimEnd()
}

/** A reason as a receipt has it: `rule_dropped: no test orders` names the rule. */
export function splitReason (reason: string): { name: string, rule: string | null } {
  const [name = '', rule] = reason.split(/: (.*)/s)
  return { name, rule: rule ?? null }
}
