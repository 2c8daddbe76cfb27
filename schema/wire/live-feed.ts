import { fieldsOf } from '../../engines/fields.ts'

/**
 * The live feed: what ingest tells while somebody watches. Core NATS, nothing is stored:
 *
 * ```
 * feed.watch           api -> ingest   somebody watches, for some seconds more (WatchNotice, JSON)
 * feed.arrived.<id>    ingest -> api   events that arrived, for one watch (ArrivedEvents, JSON)
 * ```
 *
 * A message that is lost costs a row on a screen, never an event.
 */
export const WATCH_SUBJECT = 'feed.watch'

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

/** @returns null when the value is no notice: anyone who may write to the subject cannot do more than watch. */
export function readWatchNotice (value: unknown): WatchNotice | null {
  const { id, project, event, distinctId, leaseMs } = fieldsOf(value)
  const isGood = typeof id === 'string' && WATCH_ID.test(id) && typeof project === 'number' &&
    typeof event === 'string' && typeof distinctId === 'string' && typeof leaseMs === 'number'
  return isGood ? { id, project, event, distinctId, leaseMs } : null
}
