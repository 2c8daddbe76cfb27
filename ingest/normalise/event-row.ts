import { EVENT_COLUMNS } from '../../schema/wire/event-row.ts'

/** An uuid as four 32-bit words, first characters first: what the encoder needs, without a string in between. */
export interface UuidWords {
  a: number
  b: number
  c: number
  d: number
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
}

/** The properties that have a column of their own, in the order of their columns. */
export const PROMOTED_PROPERTIES: readonly string[] = EVENT_COLUMNS.flatMap((column) =>
  'promotes' in column ? [column.promotes] : [])

/** Position of `$ip` in `promoted`: the one value that may come from the connection instead of the event. */
export const PROMOTED_IP = PROMOTED_PROPERTIES.indexOf('$ip')
