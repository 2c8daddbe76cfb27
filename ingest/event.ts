/** What the whole tier says of an event: as it was sent, in which request, as a row, and what became of it. */
import type { EnforcedProject } from './enforcement/read-projects.ts'
import type { ActiveSchema } from './enforcement/active-schemas.ts'
import type { SchemaFailure } from '../engines/json-schema/evaluation.ts'
import type { ActiveRule } from '../engines/rules/apply-rules.ts'
import type { UuidWords } from '../engines/uuid.ts'
import { EVENT_COLUMNS } from '../schema/wire/event-row.ts'
import type { DroppedEvent, WarningReason, WarningTotal } from '../schema/wire/ingestion-warnings.ts'
import type { EncodedUpdate } from './publish/persons-partitions.ts'

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
  /** When it was sent, if the request does not say that for all of its events. */
  sent_at?: unknown
  $set?: unknown
  $set_once?: unknown
  $unset?: unknown
}

/** What the events of one request have in common; nothing that becomes of them is written here. */
export interface RequestContext {
  readonly project: EnforcedProject
  readonly requestId: string
  /** Epoch milliseconds. */
  readonly receivedAt: number
  /** When the SDK says it sent the request, epoch milliseconds. */
  readonly sentAt: number | null
  /** Address of the client; empty when it is not to be stored. */
  readonly ip: string
  /** An import, as the request says: its events take the historical partitions. */
  readonly historical: boolean
  /** The request says that its events change no person; absent: they do. */
  readonly withoutPersons?: boolean
  readonly visitor: Visitor
  /** Bytes that are not UTF-8 became U+FFFD somewhere in the body. */
  readonly isTextReplaced?: boolean
  /** `sentAt` is that of this attempt and not of the first one. */
  readonly isAttemptTime: boolean
  /** How many attempts went before this one, as posthog-js says; absent: none that is known of. */
  readonly retryCount?: number
  /** Share of all distinct ids whose events are stored, beyond a quota; absent or 1: all. */
  readonly sampleRate?: number
}

/** The client of a request: for cookieless ids, bots, places, and conditions of rules on the address. */
export interface Visitor {
  /** Empty when it is unknown. */
  address: string
  /** Empty without one. */
  userAgent: string
}

/** An event ready to be encoded: one row of `events`. */
export interface EventRow {
  projectId: number
  uuid: UuidWords
  event: string
  distinctId: string
  /** Epoch milliseconds. */
  timestamp: number
  /** Epoch milliseconds. */
  receivedAt: number
  /** Group types and keys, flat: type, key, type, key. */
  groups: readonly string[]
  /** The JSON text of the properties. */
  properties: string
  propertyTypes: string
  /** Values of the promoted columns, in the order of `PROMOTED_PROPERTIES`. */
  promoted: readonly string[]
  /** Version of the schema that the event was checked by, negative when it does not meet it; 0: none. */
  schemaVersion: number
  /** The user agent of the user says that it is a program. */
  isBot: boolean
  /** How many events the row stands for; 1 unless a rule stores a share of them. */
  sampleWeight: number
  /** Its body said that its events change no persons. */
  withoutPerson?: true
}

/** The properties that have a column of their own, in the order of their columns. */
export const PROMOTED_PROPERTIES: readonly string[] = EVENT_COLUMNS.flatMap((column) =>
  'promotes' in column ? [column.promotes] : [])

/** Position of `$ip` in `promoted`: the one value that may come from the connection instead of the event. */
export const PROMOTED_IP = PROMOTED_PROPERTIES.indexOf('$ip')

/**
 * Why an event of an accepted request is not stored. The answer is 200 all the same (the contract says so), its
 * neighbours are stored, and each reason is a label of `millrace_ingest_events_dropped_total` and an ingestion warning.
 */
export const DROP_REASONS = [
  'not_an_object',
  'missing_event_name',
  'invalid_event_name',
  'missing_distinct_id',
  'invalid_distinct_id',
  'invalid_properties',
  'invalid_timestamp',
  'invalid_options',
  'unknown_message_type',
  'event_too_large',
  'not_storable',
  'schema_rejected',
  'rule_dropped',
  'rule_sampled',
  'quota_sampled',
  'erased'
] as const satisfies readonly WarningReason[]

export type DropReason = (typeof DROP_REASONS)[number]

/** A warning about a part of an event that is not stored as sent. */
export interface EventWarning {
  reason: WarningReason
  /** The value at fault; called only for the few samples shown. */
  value: () => unknown
}

export const NO_WARNINGS: readonly EventWarning[] = []
export const NO_RULES: readonly ActiveRule[] = []

/** The schema that an event does not meet, and why. */
export interface UnmetSchema {
  schema: ActiveSchema
  failure: SchemaFailure
}

/** What every outcome says beside what became of the event. */
interface Remarks {
  warnings: readonly EventWarning[]
  /** The rules that changed it. */
  changedBy: readonly ActiveRule[]
}

/** An event to be stored. */
export interface Stored extends Remarks {
  kind: 'stored'
  row: EventRow
  /** What it changes about persons and groups. */
  updates: readonly EncodedUpdate[]
  /** A schema that only observes. */
  unmet: UnmetSchema | null
}

/** An event to be dead-lettered because it does not meet its schema; what it changes about persons counts. */
export interface Quarantined extends Omit<Stored, 'kind'> {
  kind: 'quarantined'
  unmet: UnmetSchema
}

/** An event that was taken. */
export type Taken = Stored | Quarantined

export interface Dropped extends Remarks {
  kind: 'dropped'
  reason: DropReason
  /** The rule that dropped it. */
  rule: ActiveRule | null
  /** The schema that rejected it. */
  unmet: UnmetSchema | null
}

/** What becomes of an event. */
export type Outcome = Taken | Dropped

/** @param cause  Details besides the reason. */
export function drop (reason: DropReason, cause: Partial<Omit<Dropped, 'kind' | 'reason'>> = {}): Dropped {
  return { kind: 'dropped', reason, rule: null, unmet: null, warnings: NO_WARNINGS, changedBy: NO_RULES, ...cause }
}

/** Warnings about the events of one request; crosses threads. */
export interface RequestWarnings {
  /** By reason, and by rule or schema; with the first few cases of each. */
  counts: WarningCount[]
  /** The first dropped events that have a uuid. */
  drops: Omit<DroppedEvent, 'projectId'>[]
}

export type WarningCount = Omit<WarningTotal, 'projectId' | 'minute'>

/** What is counted: a reason, and which rule or schema did it. */
export type Warned = Pick<WarningTotal, 'reason' | 'rule' | 'schema'>
