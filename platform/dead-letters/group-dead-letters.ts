import type { NatsConnection } from '../nats/connect-nats.ts'
import type { DeadLetterFilter } from './publish-dead-letter.ts'
import { scanDeadLetters } from './read-dead-letters.ts'

/** Dead letters that failed at the same stage, for the same reason, with the same error code, of the same event. */
export interface DeadLetterGroup {
  stage: string
  reason: string
  /** Such as that of ClickHouse; null when the error has none. */
  errorCode: string | null
  /** Name of the event; null when they are not about one event. */
  event: string | null
  count: number
  /** ISO 8601. */
  first: string
  last: string
  /** Message of the error of the newest one: it may name a value, which differs. */
  error: string
  /** Dead letters of each of the last 24 hours, oldest hour first. */
  byHour: number[]
}

export interface GroupedDeadLetters {
  /** Most first. */
  groups: DeadLetterGroup[]
  /** All that match, those in no group included. */
  count: number
  /** Those in no group, because there are more groups than `MAX_GROUPS`. */
  ungrouped: number
}

/** Names of events are anybody's choice, so the number of groups is bounded. */
export const MAX_GROUPS = 500

const HOURS = 24
const HOUR_MS = 3_600_000

/**
 * Groups the dead letters that match.
 *
 * @param now  Epoch milliseconds, the end of the last hour of `byHour`.
 */
export async function groupDeadLetters (
  connection: NatsConnection, filter: DeadLetterFilter, now: number
): Promise<GroupedDeadLetters> {
  const groups = new Map<string, DeadLetterGroup>()
  let count = 0
  let ungrouped = 0
  for await (const { letter } of scanDeadLetters(connection, filter)) {
    const { stage, reason, errorCode, event, time, error } = letter
    const key = JSON.stringify([stage, reason, errorCode, event])
    let group = groups.get(key)
    count++
    if (group === undefined) {
      if (groups.size >= MAX_GROUPS) {
        ungrouped++
        continue
      }
      const byHour = new Array<number>(HOURS).fill(0)
      group = { stage, reason, errorCode, event, count: 0, first: time, last: time, error, byHour }
      groups.set(key, group)
    }
    group.count++
    if (time < group.first) group.first = time
    if (time >= group.last) {
      group.last = time
      group.error = error
    }
    const hoursAgo = Math.floor((now - Date.parse(time)) / HOUR_MS)
    if (hoursAgo < HOURS) group.byHour[HOURS - 1 - Math.max(0, hoursAgo)]!++
  }
  return { groups: [...groups.values()].sort((one, other) => other.count - one.count), count, ungrouped }
}
