import { jetstreamManager } from '@nats-io/jetstream'
import { DEAD_LETTER_STREAM } from '../../../schema/wire/streams.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { readStreamInfo } from '../../../platform/nats/stream-info.ts'
import type { DeadLetterFilter } from '../../../schema/wire/dead-letter-message.ts'
import { scanDeadLetters } from '../../../platform/dead-letters/read-dead-letters.ts'
import type { DeadLetterGroups } from './dead-letter-schema.ts'

const MAX_GROUPS = 500

/** Names of events are anybody's choice, so the number of groups that are counted is bounded: about 10 MB. */
const MAX_COUNTED_GROUPS = 10_000

/** A remembered answer is as exact as `by_hour` needs to be, in milliseconds. */
const REMEMBERED_MS = 60_000
const MAX_REMEMBERED = 20

const HOURS = 24
const HOUR_MS = 3_600_000

/** Groups the dead letters that match. @param now  Epoch milliseconds, the end of the last hour of `by_hour`. */
async function groupDeadLetters (
  connection: NatsConnection, filter: DeadLetterFilter, now: number
): Promise<DeadLetterGroups> {
  const groups = new Map<string, DeadLetterGroups['results'][number]>()
  let count = 0
  for await (const { letter } of scanDeadLetters(connection, filter)) {
    const { stage, reason, errorCode, project, event, time, error } = letter
    const key = JSON.stringify([stage, reason, errorCode, project, event])
    let group = groups.get(key)
    count++
    if (group === undefined) {
      if (groups.size >= MAX_COUNTED_GROUPS) continue
      const of = { stage, reason, error_code: errorCode, project, event }
      group = { ...of, count: 0, first: time, last: time, error, by_hour: new Array<number>(HOURS).fill(0) }
      groups.set(key, group)
    }
    group.count++
    if (time < group.first) group.first = time
    if (time >= group.last) {
      group.last = time
      group.error = error
    }
    const hoursAgo = Math.floor((now - Date.parse(time)) / HOUR_MS)
    const hour = HOURS - 1 - Math.max(0, hoursAgo)
    if (hour >= 0) group.by_hour[hour] = (group.by_hour[hour] ?? 0) + 1
  }
  const largest = [...groups.values()].sort((one, other) => other.count - one.count).slice(0, MAX_GROUPS)
  return { results: largest, count, ungrouped: count - largest.reduce((sum, group) => sum + group.count, 0) }
}

/**
 * Groups dead letters like {@link groupDeadLetters}, and answers from memory while the stream has the same letters:
 * somebody who watches 100,000 of them would have them all read every few seconds.
 */
export function createDeadLetterGroups (): typeof groupDeadLetters {
  const remembered = new Map<string, { answer: DeadLetterGroups, state: string, at: number }>()
  return async function groupRemembered (connection, filter, now) {
    const { state } = await readStreamInfo(await jetstreamManager(connection), DEAD_LETTER_STREAM)
    // A letter that comes raises the last one, a letter that goes lowers the number.
    const current = `${state.last_seq} ${state.messages}`
    const key = JSON.stringify(filter)
    const known = remembered.get(key)
    if (known?.state === current && now - known.at < REMEMBERED_MS) return known.answer
    const answer = await groupDeadLetters(connection, filter, now)
    remembered.delete(key)
    remembered.set(key, { answer, state: current, at: now })
    const [oldest] = remembered.keys()
    if (remembered.size > MAX_REMEMBERED && oldest !== undefined) remembered.delete(oldest)
    return answer
  }
}
