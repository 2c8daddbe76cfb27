import { type Outcome } from './flag-outcome.ts'

export type Properties = Readonly<Record<string, unknown>>

/** What Postgres knows about a subject; read at most once a request, and only when an answer depends on it. */
export interface StoredFacts {
  /** Properties of the person; empty when there is none. */
  properties: Properties
  /** Properties of the request's groups, by group type index. */
  groupProperties: ReadonlyMap<number, Properties>
  /** Identifier to hash by flag key, for flags with experience continuity. */
  hashKeyOverrides: ReadonlyMap<string, string>
  /** What is not among the overrides may still exist: keeping a new one failed. */
  hashKeysUnknown: boolean
  /** Ids of the static cohorts that the person is in, of those that flags ask for. */
  cohortIds: ReadonlySet<number>
}

/** Whom a request asks about. Changed only by evaluating: `outcomes` fills up, `stored` is set once. */
export interface Subject {
  distinctId: string
  /** The id before the user was identified, as SDKs send it. */
  anonDistinctId: string | null
  deviceId: string | null
  /** Unix milliseconds; the same for all flags of a request. */
  nowMs: number
  /** Properties that the request gives; they win over stored ones. */
  personOverrides: Properties | null
  /** Group keys by group type index; undefined or empty: the request names no such group. */
  groupKeys: ReadonlyArray<string | undefined>
  groupOverrides: ReadonlyArray<Properties | undefined>
  /** Null: not read yet. */
  stored: StoredFacts | null
  /** By position of the flag in its set; remembers what was computed. */
  outcomes: Array<Outcome | undefined>
}

/** The property does not exist. */
export const ABSENT = Symbol('absent')

/** Whether the property exists, and its value, is only known to Postgres, which has not been asked. */
export const UNREAD = Symbol('unread')

/** Facts about a subject of whom nothing is stored. */
export const NO_FACTS: StoredFacts = {
  properties: {},
  groupProperties: new Map(),
  hashKeyOverrides: new Map(),
  hashKeysUnknown: false,
  cohortIds: new Set()
}
