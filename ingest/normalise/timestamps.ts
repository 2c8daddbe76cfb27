import { EARLIEST_MS, MAX_FUTURE_MS, parseTimestamp } from '../../engines/parse-timestamp.ts'

const HOUR_MS = 3_600_000

/** Longest way of a request that the clock of its device is not blamed for. */
const MAX_LATENCY_MS = 2000

/**
 * How long SDKs repeat a request with its first `sent_at` and without a word about it: posthog-node, posthog-js-lite
 * and posthog-react-native 50 s (3 retries 3 s apart, each attempt 10 s at most), longer with other settings.
 */
const MAX_SILENT_RETRIES_MS = 120_000

/** The same for requests that tell by `retry_count` that they are repeated: posthog-js goes on for an hour. */
const MAX_TOLD_RETRIES_MS = 2 * HOUR_MS

/** `$lib` of the SDKs that make `sent_at` anew for each attempt; posthog-js also counts them, in `retry_count`. */
const RENEWING_SDKS: ReadonlySet<unknown> = new Set(['web', 'posthog-ios', 'posthog-android', 'posthog-flutter'])

/** posthog-js waits 3 s, doubled with each retry, less a quarter at most. */
const FIRST_RETRY_MS = 2250

export interface TimestampFacts {
  /** What the event says. */
  timestamp: unknown
  /** Age of the event when it was sent, in milliseconds, as posthog-js gives it instead of a timestamp. */
  offset: unknown
  /** Time inside the UUIDv7 that the event came with, epoch milliseconds; null for other uuids. */
  uuidTime: number | null
  /** When the SDK says it sent the request, epoch milliseconds; null when unknown or to be ignored. */
  sentAt: number | null
  receivedAt: number
  /** `$lib` of the event. */
  lib?: unknown
  /** How many attempts the request says went before it. */
  retryCount?: number | undefined
  /** `sentAt` is that of this attempt and not of the first one, whoever sends it. */
  isAttemptTime?: boolean
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
 * "Received minus sent" is the error of the device's clock when `sent_at` is that of the attempt that arrived. Some
 * SDKs write `sent_at` and `offset` once and repeat them on each retry: then it is mostly waiting, and a right clock
 * would be corrected by it. How long a delay may be waiting is known of the SDKs that send UUIDv7 (`longestWait`); for
 * those that do not, it is the way of the request:
 *
 * - a delay that may be waiting: the event's own timestamp, or the time of its uuid v7 when it came with an offset;
 * - else with an offset: received minus offset; on a retry the uuid's time, corrected as below;
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

/** Why a time was replaced: which rule of `resolveTimestamp` it was. */
export function whyReplaced (
  timestamp: unknown, time: number
): 'timestamp_too_old' | 'timestamp_unreadable' | 'timestamp_in_future' {
  if (time === EARLIEST_MS) return 'timestamp_too_old'
  const isUnreadable = timestamp !== undefined && timestamp !== null && timestamp !== '' && parseTimestamp(timestamp) === null
  return isUnreadable ? 'timestamp_unreadable' : 'timestamp_in_future'
}

function chooseTime (facts: TimestampFacts, sent: number | null): number {
  const { offset, uuidTime, sentAt, receivedAt, retryCount = 0 } = facts
  const hasOffset = typeof offset === 'number' && Number.isFinite(offset)
  // Without sent_at, what the offset does not explain of the uuid's age is the delay.
  const delay = sentAt !== null
    ? receivedAt - sentAt
    : hasOffset && uuidTime !== null ? receivedAt - offset - uuidTime : null
  const own = hasOffset ? uuidTime : sent
  if (own !== null && delay !== null && delay >= 0 && delay <= longestWait(facts)) return own
  const isOffsetOutdated = retryCount > 0 && own !== null && sentAt !== null
  if (hasOffset && !isOffsetOutdated) return receivedAt - offset
  if (own === null) return receivedAt
  return sentAt === null ? own : own + (receivedAt - sentAt)
}

/** The longest delay between sending and receiving that is not an error of the clock, in milliseconds. */
function longestWait ({ uuidTime, sentAt, lib, retryCount = 0, isAttemptTime = false }: TimestampFacts): number {
  if (isAttemptTime || uuidTime === null) return MAX_LATENCY_MS
  if (retryCount === 0) return RENEWING_SDKS.has(lib) ? MAX_LATENCY_MS : MAX_SILENT_RETRIES_MS
  // By the device's own clock: was it sent when the event was new, or after the waiting that the retries took?
  const age = sentAt === null ? 0 : sentAt - uuidTime
  return age >= FIRST_RETRY_MS * (2 ** retryCount - 1) ? MAX_LATENCY_MS : MAX_TOLD_RETRIES_MS
}
