import { jetstreamManager } from '@nats-io/jetstream'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type HealthPart } from '../../platform/health/health-report.ts'
import { type Metrics } from '../../platform/metrics.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM, PEOPLE_STREAM } from '../../schema/streams.ts'

/** How often the streams are looked at, in milliseconds. */
const LOOK_MS = 2000

/** From here on a stream should be attended to: at 1 ingest spools. */
const NEARLY_FULL = 0.8

/** What waits in a stream. EVENTS and PEOPLE are work queues, so all they hold is unsettled work. */
interface StreamFill {
  messages: number
  bytes: number
  maxBytes: number
  /** When the oldest message came, epoch milliseconds; 0 in an empty stream. */
  oldestAt: number
}

/** What is known of the streams. */
export interface StreamWatch {
  /** One part a stream, empty until the first answer and while NATS does not answer. */
  parts: () => HealthPart[]
  stop: () => void
}

/** Watches how much waits in each stream, in messages, bytes and seconds: the whole lag, whoever owns the lanes. */
export function watchStreams ({ connection, metrics }: { connection: NatsConnection, metrics: Metrics }): StreamWatch {
  const fills = new Map<string, StreamFill>()
  const gauges = {
    messages: metrics.gauge('stream_messages', 'Messages that a stream holds.', ['stream']),
    bytes: metrics.gauge('stream_bytes', 'Bytes that a stream holds.', ['stream']),
    maxBytes: metrics.gauge('stream_max_bytes', 'Bytes that a stream may hold; beyond, it refuses messages.', ['stream']),
    oldest: metrics.gauge('stream_oldest_message_seconds', 'Age of the oldest message of a stream, 0 when it is empty.', ['stream'])
  }
  Object.assign(gauges.messages, { collect: fillGauges })

  function fillGauges (): void {
    for (const gauge of Object.values(gauges)) gauge.reset()
    for (const [stream, fill] of fills) {
      gauges.messages.set({ stream }, fill.messages)
      gauges.bytes.set({ stream }, fill.bytes)
      gauges.maxBytes.set({ stream }, fill.maxBytes)
      gauges.oldest.set({ stream }, ageMs(fill) / 1000)
    }
  }

  async function look (): Promise<void> {
    try {
      const manager = await jetstreamManager(connection)
      for (const stream of [EVENTS_STREAM, PEOPLE_STREAM, DEAD_LETTER_STREAM]) {
        const { state, config } = await manager.streams.info(stream)
        fills.set(stream, {
          messages: state.messages,
          bytes: state.bytes,
          maxBytes: config.max_bytes,
          oldestAt: state.messages === 0 ? 0 : Date.parse(state.first_ts)
        })
      }
    } catch {
      // NATS is away, which the connection logs itself; old numbers would be taken for current ones.
      fills.clear()
    }
  }

  void look()
  const timer = setInterval(() => { void look() }, LOOK_MS)
  return {
    parts: () => [...fills].filter(([stream]) => stream !== DEAD_LETTER_STREAM).map(([stream, fill]) => ({
      name: `stream ${stream}`,
      healthy: fill.maxBytes <= 0 || fill.bytes < fill.maxBytes * NEARLY_FULL,
      messages: fill.messages,
      bytes: fill.bytes,
      maxBytes: fill.maxBytes,
      lagMs: ageMs(fill)
    })),
    stop: () => clearInterval(timer)
  }
}

function ageMs ({ oldestAt }: StreamFill): number {
  return oldestAt === 0 ? 0 : Math.max(0, Date.now() - oldestAt)
}
