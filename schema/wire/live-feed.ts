import { fieldsOf } from '../../engines/fields.ts'
import { FINGERPRINT_BYTES } from './frame-message.ts'

/**
 * The live feed: what ingest and the writer tell while somebody watches. Core NATS, nothing is stored:
 *
 * ```
 * feed.watch           api -> ingest, pipeline   somebody watches, for some seconds more (WatchNotice, JSON)
 * feed.arrived.<id>    ingest -> api             events that arrived, for one watch (ArrivedEvents, JSON)
 * feed.fates           pipeline -> api           what became of rows: fingerprints with one fate (encodeFates)
 * ```
 *
 * A message that is lost costs a row on a screen, never an event. Fates name rows by their fingerprints, which the
 * writer has at hand without looking into a frame (`schema/wire/frame-message.ts`).
 */
export const WATCH_SUBJECT = 'feed.watch'
export const FATES_SUBJECT = 'feed.fates'

export function arrivedSubject (watchId: string): string {
  return `feed.arrived.${watchId}`
}

/** Characters that a watch id may have: it is a token of a subject. */
const WATCH_ID = /^[\w-]{1,64}$/

/** Which events somebody watches. */
export interface Watch {
  /** Names the subject that its events are published to. */
  id: string
  project: number
  /** Name of the event; empty for every name. */
  event: string
  /** Distinct id as stored; empty for every one. */
  distinctId: string
}

/** Says that a watch goes on for so long; 0 ends it. */
export interface WatchNotice extends Watch {
  leaseMs: number
}

/** An event as it arrived. */
export interface ArrivedEvent {
  /** When it was received, epoch milliseconds. */
  at: number
  /** As stored; as sent when it was dropped. */
  event: string
  distinctId: string
  uuid: string
  lib: string
  libVersion: string
  /** The first characters of the key it was sent with. */
  key: string
  /** Why it was dropped; null when it was taken. */
  drop: string | null
  /** It does not meet its schema, and went to the dead letters. */
  isQuarantined: boolean
  /** Its fingerprint in hexadecimal, by which its fate is found; empty when it was dropped. */
  fingerprint: string
  /** Its JSON as sent. */
  sent: string
  /** Characters of `sent` before it was cut; 0 when it is whole. */
  sentCharacters: number
}

/** What one process of ingest saw for one watch since its last message. */
export interface ArrivedEvents {
  /** The process. */
  from: string
  /** Events that the watch asked for, since the process knows of it: `events` are some of them. */
  matched: number
  events: ArrivedEvent[]
}

/** What the writer tells of a row, in the order of their numbers in `encodeFates`. */
export const FATES = ['stored', 'duplicate', 'dead_letter'] as const

export type Fate = (typeof FATES)[number]

const FATES_HEADER_BYTES = 9

/** Rows with one fate. */
export interface Fates {
  fate: Fate
  /** When it was known, epoch milliseconds. */
  at: number
  /** Fingerprints, one after the other. */
  fingerprints: Uint8Array
}

/**
 * ```
 * | fate: 1 byte | at: float64, little-endian | fingerprints: rows x 12 bytes |
 * ```
 */
export function encodeFates ({ fate, at, fingerprints }: Fates): Uint8Array {
  const bytes = Buffer.allocUnsafe(FATES_HEADER_BYTES + fingerprints.length)
  bytes[0] = FATES.indexOf(fate)
  bytes.writeDoubleLE(at, 1)
  bytes.set(fingerprints, FATES_HEADER_BYTES)
  return bytes
}

/** @returns null when the bytes are no such message. */
export function decodeFates (message: Uint8Array): Fates | null {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const fate = FATES[bytes[0] ?? FATES.length]
  const length = bytes.length - FATES_HEADER_BYTES
  if (fate === undefined || length < 0 || length % FINGERPRINT_BYTES !== 0) return null
  return { fate, at: bytes.readDoubleLE(1), fingerprints: bytes.subarray(FATES_HEADER_BYTES) }
}

/** @returns null when the value is no notice: anyone who may write to the subject cannot do more than watch. */
export function readWatchNotice (value: unknown): WatchNotice | null {
  const { id, project, event, distinctId, leaseMs } = fieldsOf(value)
  const isGood = typeof id === 'string' && WATCH_ID.test(id) && typeof project === 'number' &&
    typeof event === 'string' && typeof distinctId === 'string' && typeof leaseMs === 'number'
  return isGood ? { id, project, event, distinctId, leaseMs } : null
}
