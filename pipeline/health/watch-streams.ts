/** Watches the streams of NATS: how much waits and for how long, what vanished, how full the dead-letter stream is. */
import type { StreamState } from '@nats-io/jetstream'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM, PERSONS_STREAM, WARNINGS_STREAM } from '../../schema/wire/streams.ts'
import type { MissingCounter, MissingMessages } from './count-missing.ts'

/** Interval between two polls of the streams, in milliseconds. */
const POLL_INTERVAL_MS = 2000

/** A stream filled to this ratio needs attention: at 1 ingest spools, and partitions with a dead letter wait. */
export const NEARLY_FULL = 0.8

/** Interval between two searches for vanished messages, in milliseconds. */
const COUNT_MS = 10_000

/** How long missing messages are reported, in milliseconds: a day, so that an operator sees it. */
const MISSING_MS = 86_400_000

/** Interval between two warnings about a nearly full dead-letter stream, in milliseconds. */
const WARN_INTERVAL_MS = 60_000

/** What waits in a stream. EVENTS and PERSONS are work queues, so all they hold is unacknowledged work. */
interface StreamFill {
  messages: number
  bytes: number
  maxBytes: number
  /** When the oldest message was stored, epoch milliseconds; 0 in an empty stream. See `findOldestAt`. */
  oldestAt: number
  /** Sequence of the oldest message. */
  firstSequence: number
  /** Bytes of messages that nats-server could not read when it started, as it reports them until its next start. */
  lostBytes: number
}

/** The last known state of the streams. */
export interface StreamWatch {
  /** One entry for each stream; empty until the first answer and while NATS does not answer. */
  parts: () => HealthPart[]
  /** Null until the first answer, and while NATS does not answer. */
  deadLetters: () => DeadLetterFill | null
  stop: () => Promise<void>
}

/** How full the dead-letter stream is. */
export interface DeadLetterFill {
  letters: number
  bytes: number
  maxBytes: number
  /** 0 to 1. An operator should act from `NEARLY_FULL` on. */
  ratio: number
}

export interface WatchStreamsDeps {
  connection: NatsConnection
  counter: MissingCounter
  metrics: Metrics
  logger: Logger
}

/**
 * Watches how much waits in each stream, in messages, bytes and seconds: the lag of all partitions, whichever process
 * owns them. Also detects vanished messages, which nats-server itself reports in its log only.
 */
export function watchStreams ({ connection, counter, metrics, logger }: WatchStreamsDeps): StreamWatch {
  let missing: MissingMessages['found'] = null
  const fills = new Map<string, StreamFill>()
  const lostBefore = new Map<string, number>()
  let warnedAt = -Infinity
  showFills(metrics, fills)
  metrics.gaugeFrom('stream_missing_messages',
    'Messages vanished from EVENTS in 24 hours, neither stored nor dead-lettered.', () => missingMessages())

  function missingMessages (): number {
    return missing !== null && Date.now() - missing.at < MISSING_MS ? missing.messages : 0
  }

  async function poll (): Promise<void> {
    try {
      const manager = await manageJetStream(connection)
      for (const stream of [EVENTS_STREAM, PERSONS_STREAM, DEAD_LETTER_STREAM, WARNINGS_STREAM]) {
        const { state, config } = await readStreamInfo(manager, stream)
        const lostBytes = (state as { lost?: { bytes: number } }).lost?.bytes ?? 0
        if (lostBytes > (lostBefore.get(stream) ?? 0)) {
          logger.error({ stream, lostBytes }, 'nats-server could not read messages of a stream: its files are damaged')
        }
        lostBefore.set(stream, lostBytes)
        fills.set(stream, {
          lostBytes,
          messages: state.messages,
          bytes: state.bytes,
          maxBytes: config.max_bytes,
          oldestAt: findOldestAt(state, fills.get(stream)),
          firstSequence: state.first_seq
        })
      }
    } catch {
      // NATS is unavailable, which the connection logs. Old numbers would look like current ones.
      fills.clear()
    }
    const letters = deadLettersOf(fills)
    if (letters !== null && letters.ratio >= NEARLY_FULL && performance.now() - warnedAt > WARN_INTERVAL_MS) {
      warnedAt = performance.now()
      logger.warn({ ...letters }, 'the dead-letter stream is nearly full: replay or purge dead letters')
    }
  }

  async function count (): Promise<void> {
    // On an error NATS is unavailable, which the connection logs. The last count stays valid.
    const reading = await counter.count().catch(() => null)
    if (reading === null) return
    missing = reading.found
    if (reading.isNews) {
      logger.error({ stream: EVENTS_STREAM, messages: reading.found?.messages, inAll: reading.missing },
        'messages vanished from a stream: they were accepted, but are neither stored nor dead-lettered')
    }
  }

  const loops = [
    runAtIntervals({ everyMs: POLL_INTERVAL_MS, run: poll }),
    runAtIntervals({ everyMs: COUNT_MS, firstAfterMs: COUNT_MS, run: count })
  ]
  return {
    parts: () => [...fills].filter(hasPart).map(([stream, fill]) => ({
      name: `stream ${stream}`,
      healthy: (fill.maxBytes <= 0 || fill.bytes < fill.maxBytes * NEARLY_FULL) && fill.lostBytes === 0 &&
        (stream !== EVENTS_STREAM || missingMessages() === 0),
      messages: fill.messages,
      bytes: fill.bytes,
      maxBytes: fill.maxBytes,
      lagMs: ageMs(fill),
      lostBytes: fill.lostBytes,
      ...(stream === EVENTS_STREAM ? { missingMessages: missingMessages() } : {})
    })),
    deadLetters: () => deadLettersOf(fills),
    stop: async () => { await Promise.all(loops.map(async (loop) => await loop.stop())) }
  }
}

/** Null while nothing is known. */
function deadLettersOf (fills: ReadonlyMap<string, StreamFill>): DeadLetterFill | null {
  const fill = fills.get(DEAD_LETTER_STREAM)
  if (fill === undefined) return null
  const maxBytes = fill.maxBytes > 0 ? fill.maxBytes : Infinity
  return { letters: fill.messages, bytes: fill.bytes, maxBytes, ratio: fill.bytes / maxBytes }
}

/** The gauges of the streams; none for a stream of which nothing is known. */
function showFills (metrics: Metrics, fills: ReadonlyMap<string, StreamFill>): void {
  metrics.gaugeFrom('dead_letters', 'Dead letters; NaN while NATS does not answer.',
    () => deadLettersOf(fills)?.letters ?? Number.NaN)
  metrics.gaugeFrom('dead_letters_fill_ratio', 'Used share of the dead-letter stream, 0 to 1; NaN while NATS does not answer.',
    () => deadLettersOf(fills)?.ratio ?? Number.NaN)
  const show = (name: string, help: string, of: (fill: StreamFill) => number): void =>
    metrics.gaugesFrom(name, help, ['stream'], () => Array.from(fills, ([stream, fill]) => [{ stream }, of(fill)] as const))
  show('stream_messages', 'Messages in a stream.', ({ messages }) => messages)
  show('stream_bytes', 'Bytes in a stream.', ({ bytes }) => bytes)
  show('stream_max_bytes', 'Maximum bytes of a stream, beyond which it refuses messages.', ({ maxBytes }) => maxBytes)
  show('stream_oldest_message_seconds', 'Age of the oldest message in a stream; 0 when it is empty.', (fill) => ageMs(fill) / 1000)
  show('stream_lost_bytes', 'Bytes of messages that nats-server could not read at start.', ({ lostBytes }) => lostBytes)
}

/** Dead letters have an entry of their own. */
function hasPart ([stream, { lostBytes }]: [string, StreamFill]): boolean {
  return stream !== DEAD_LETTER_STREAM || lostBytes > 0
}

/**
 * When the oldest message of a stream was stored, in epoch milliseconds; 0 when it is empty. nats-server reports the
 * year 1 for a message that it cannot read: then the time known before counts, or the time of the first poll.
 */
export function findOldestAt (
  state: Pick<StreamState, 'messages' | 'first_seq' | 'first_ts'>,
  before: Pick<StreamFill, 'firstSequence' | 'oldestAt'> | undefined
): number {
  if (state.messages === 0) return 0
  const oldestAt = Date.parse(state.first_ts)
  if (oldestAt > 0) return oldestAt
  const isKnown = before !== undefined && before.firstSequence === state.first_seq && before.oldestAt > 0
  return isKnown ? before.oldestAt : Date.now()
}

function ageMs ({ oldestAt }: StreamFill): number {
  return oldestAt === 0 ? 0 : Math.max(0, Date.now() - oldestAt)
}
