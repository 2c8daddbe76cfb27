import { parseTimestamp } from './parse-timestamp.ts'

const HOUR_MS = 3_600_000

/** Events from further ahead are a wrong clock (docs/contract/sdks.md 1.8: 23 h, because time zones reach 14 h). */
const MAX_FUTURE_MS = 23 * HOUR_MS

/** A delay between sending and receiving up to this long is taken for waiting and retrying, not for a wrong clock. */
const MAX_RETRY_DELAY_MS = 2 * HOUR_MS

/** 2000-01-01: older times come from clocks that were never set. ClickHouse would make a partition for each month. */
export const EARLIEST_MS = 946_684_800_000

export interface TimestampFacts {
  /** What the event says. */
  timestamp: unknown
  /** Age of the event when it was sent, in milliseconds, as posthog-js gives it instead of a timestamp. */
  offset: unknown
  /** Time inside the event's UUIDv7, epoch milliseconds; null for other uuids. */
  uuidTime: number | null
  /** When the SDK says it sent the request, epoch milliseconds; null when unknown or to be ignored. */
  sentAt: number | null
  receivedAt: number
}

export interface ResolvedTimestamp {
  /** Epoch milliseconds, whole. */
  time: number
  /** What was sent cannot be seen from `time` any more: unreadable, too old or in the future. */
  replaced: boolean
}

/**
 * Decides when an event happened.
 *
 * SDKs write `sent_at` and `offset` once and repeat them on each retry, so "received minus sent" is the error of the
 * device's clock only on the first try; later it is mostly waiting. A UUIDv7 was made when the event happened and
 * tells the two apart, and so the time does not depend on which try arrived:
 *
 * - uuid v7 and a delay of 0 to 2 h: the event's own timestamp, or the uuid's time when it came with an offset;
 * - else with an offset: received minus offset;
 * - else with a timestamp: corrected by (received minus sent) when the latter is known;
 * - else: the time of receipt.
 */
export function resolveTimestamp (facts: TimestampFacts): ResolvedTimestamp {
  const { receivedAt } = facts
  const sent = facts.timestamp === undefined || facts.timestamp === null ? null : parseTimestamp(facts.timestamp)
  const time = Math.floor(chooseTime(facts, sent))
  if (time > receivedAt + MAX_FUTURE_MS) return { time: receivedAt, replaced: true }
  if (time < EARLIEST_MS) return { time: EARLIEST_MS, replaced: true }
  const unreadable = sent === null && facts.timestamp !== undefined && facts.timestamp !== null && facts.timestamp !== ''
  return { time, replaced: unreadable }
}

function chooseTime ({ offset, uuidTime, sentAt, receivedAt }: TimestampFacts, sent: number | null): number {
  const hasOffset = typeof offset === 'number' && Number.isFinite(offset)
  // Without sent_at, what the offset does not explain of the uuid's age is the delay.
  const delay = sentAt !== null
    ? receivedAt - sentAt
    : hasOffset && uuidTime !== null ? receivedAt - offset - uuidTime : null
  const isRetryDelay = delay !== null && delay >= 0 && delay <= MAX_RETRY_DELAY_MS
  if (uuidTime !== null && isRetryDelay) {
    if (hasOffset) return uuidTime
    if (sent !== null) return sent
  }
  if (hasOffset) return receivedAt - offset
  if (sent === null) return receivedAt
  return sentAt === null ? sent : sent + (receivedAt - sentAt)
}
