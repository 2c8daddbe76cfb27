/**
 * Ingestion warnings: what was not stored as it was sent, counted by project, reason and minute, with some samples.
 *
 * A count travels as the sum of its minute so far, together with who counted it (`source`), and the table keeps the
 * highest one of each source. So a message that is repeated, overtaken or inserted twice changes nothing, and the total
 * of a minute is the sum over its sources (docs/decisions/0023-ledger-commits-with-progress.md).
 */

/** What happened to the event, by reason. */
export type WarningEffect = 'dropped' | 'replaced' | 'cut' | 'refused' | 'kept' | 'quarantined'

/**
 * Every reason, with its effect:
 *
 * - `dropped`: answered with 200, not stored.
 * - `replaced`: stored, with another value in the place of one that makes no sense, or that a rule keeps out.
 * - `cut`: stored, with a value cut to its limit, or a part left out.
 * - `kept`: stored as sent, although its project has said that it should be otherwise.
 * - `quarantined`: a dead letter because its project has said so; stored when it is replayed.
 * - `refused`: the whole request (`rate_limited`, `quota_exceeded`, and what belongs to no project: `wrong_key`,
 *   `body_too_large`, `body_unreadable`, `unknown_path`), or a change of a person or group.
 */
export const INGESTION_WARNINGS = {
  not_an_object: 'dropped',
  missing_event_name: 'dropped',
  invalid_event_name: 'dropped',
  missing_distinct_id: 'dropped',
  invalid_distinct_id: 'dropped',
  invalid_properties: 'dropped',
  invalid_timestamp: 'dropped',
  invalid_options: 'dropped',
  unknown_message_type: 'dropped',
  event_too_large: 'dropped',
  not_storable: 'dropped',
  schema_rejected: 'dropped',
  rule_dropped: 'dropped',
  rule_sampled: 'dropped',
  quota_sampled: 'dropped',
  erased: 'dropped',
  timestamp_in_future: 'replaced',
  timestamp_too_old: 'replaced',
  timestamp_unreadable: 'replaced',
  uuid_invalid: 'replaced',
  text_replaced: 'replaced',
  rule_changed: 'replaced',
  event_name_cut: 'cut',
  distinct_id_cut: 'cut',
  group_cut: 'cut',
  too_many_groups: 'cut',
  column_cut: 'cut',
  property_too_deep: 'cut',
  part_left_out: 'cut',
  property_not_described: 'cut',
  too_many_names: 'cut',
  visitor_unknown: 'cut',
  rate_limited: 'refused',
  quota_exceeded: 'refused',
  wrong_key: 'refused',
  body_too_large: 'refused',
  body_unreadable: 'refused',
  unknown_path: 'refused',
  illegal_distinct_id: 'refused',
  already_identified: 'refused',
  properties_too_large: 'refused',
  update_refused: 'refused',
  too_many_group_types: 'refused',
  schema_not_met: 'kept',
  schema_quarantined: 'quarantined'
} as const satisfies Record<string, WarningEffect>

export type WarningReason = keyof typeof INGESTION_WARNINGS

/** Reasons for which an event of a project is not stored. Live events show a case of each every second. */
export const NOT_STORED: ReadonlySet<string> = new Set(Object.entries(INGESTION_WARNINGS)
  .filter(([, effect]) => effect === 'dropped' || effect === 'quarantined').map(([reason]) => reason)
  .concat('rate_limited', 'quota_exceeded'))

/** The project of warnings that belong to none: of requests that were refused before their project was known. */
export const NO_PROJECT = 0

/** Samples that one source keeps at once of a project, reason and minute; one a second after that for `NOT_STORED`. */
export const MAX_SAMPLES = 3

/** Characters of each text of a sample. */
export const MAX_SAMPLE_TEXT = 200

/** Dropped events that one process names in a minute, whatever clients send: a receipt knows these. */
export const MAX_DROPS_PER_MINUTE = 1000

/** One case of a warning. Texts are storable, at most `MAX_SAMPLE_TEXT` characters, and empty when unknown. */
export interface WarningSample {
  /** Epoch milliseconds. */
  receivedAt: number
  event: string
  distinctId: string
  uuid: string
  /** SDK and its version. */
  lib: string
  libVersion: string
  /** The value at fault, as text; for a wrong key its first characters only, for a body the error. */
  value: string
}

/** What one source has counted of a project, reason and minute so far. */
export interface WarningTotal {
  projectId: number
  reason: WarningReason
  /** Id of the rule, of what rules did: each has a total of its own. */
  rule?: number
  /** Id of the schema, of events that do not meet it: each has a total of its own. */
  schema?: number
  /** Start of the minute in which ingest received the event, epoch milliseconds. */
  minute: number
  /** Events; of what refuses whole requests, requests. Never less than in an earlier message. */
  count: number
  samples: WarningSample[]
}

/** A dropped event that has a uuid, for its receipt (`schema/wire/event-traces.ts`). */
export interface DroppedEvent {
  projectId: number
  /** Canonical text. */
  uuid: string
  reason: WarningReason
  /** Name of the rule that dropped it. */
  rule?: string
  /** When ingest received it, epoch milliseconds. */
  at: number
  /** `hashDistinctId`; empty without a distinct id. */
  distinctIdHash: string
}

/** A message of WARNINGS, as JSON. */
export interface WarningsMessage {
  /** Id of the process that counted. */
  source: string
  totals: WarningTotal[]
  /** Absent: none, or a process of a version that does not tell. */
  drops?: DroppedEvent[]
}

/** The table that takes the totals; `ingestion_warnings` is the view over it that people read. */
export const WARNINGS_TABLE = 'ingestion_warnings_by_source'

/**
 * What stands in `source` between the process and the id of a rule or schema. So their totals are counted as those of
 * any other source are, and none is lost in another.
 */
export const RULE_SEPARATOR = '/rule/'
export const SCHEMA_SEPARATOR = '/schema/'

/** A row of `WARNINGS_TABLE` as JSONEachRow takes it. */
export function toWarningRow (source: string, total: WarningTotal): Record<string, unknown> {
  return {
    project_id: total.projectId,
    minute: Math.floor(total.minute / 1000),
    reason: total.reason,
    source: sourceOf(source, total),
    effect: INGESTION_WARNINGS[total.reason],
    count: total.count,
    samples: total.samples.map((sample) => ({
      received_at: new Date(sample.receivedAt).toISOString().slice(0, 23),
      event: sample.event,
      distinct_id: sample.distinctId,
      uuid: sample.uuid,
      lib: sample.lib,
      lib_version: sample.libVersion,
      value: sample.value
    }))
  }
}

/** Who counted a total, and what for. */
export function sourceOf (source: string, { rule, schema }: Pick<WarningTotal, 'rule' | 'schema'>): string {
  if (rule !== undefined) return `${source}${RULE_SEPARATOR}${rule}`
  return schema === undefined ? source : `${source}${SCHEMA_SEPARATOR}${schema}`
}

const MINUTE_MS = 60_000

/** Start of the minute of a moment, epoch milliseconds. */
export function minuteOf (epochMs: number): number {
  return epochMs - epochMs % MINUTE_MS
}
