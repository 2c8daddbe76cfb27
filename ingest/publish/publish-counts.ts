import { type Metrics } from '../../platform/metrics.ts'
import { type Spool } from '../spool/spool.ts'

/** What became of messages: plain numbers, read when somebody asks for the metrics. */
export interface PublishCounts {
  /** Acknowledged by the stream at once. */
  published: number
  /** Kept on the disk instead. */
  spooled: number
  /** Published from the spool later. */
  drained: number
  /** Neither the stream nor the spool took them: answered with 503. */
  refused: number
  /** Handed to the stream and not yet acknowledged. */
  inFlightBytes: number
  /** Time from handing over to acknowledgement of a message published directly, milliseconds. */
  observeAckMs (ms: number): void
}

export function createPublishCounts (metrics: Metrics, spool: Pick<Spool, 'bytes'>): PublishCounts {
  const ackSeconds = metrics.histogram('publish_seconds', 'From handing a message to the stream to its acknowledgement.',
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5])
  const counts: PublishCounts = {
    published: 0, spooled: 0, drained: 0, refused: 0, inFlightBytes: 0,
    observeAckMs: (ms) => ackSeconds.observe(ms / 1000)
  }
  metrics.countersFrom('messages_total', 'Messages by what became of them; spooled ones count again when drained.', ['outcome'],
    () => (['published', 'spooled', 'drained', 'refused'] as const).map((outcome) => [{ outcome }, counts[outcome]] as const))
  metrics.gaugeFrom('in_flight_bytes', 'Bytes handed to the stream and not yet acknowledged.', () => counts.inFlightBytes)
  metrics.gaugeFrom('spool_bytes', 'Bytes on the disk that wait for the stream.', () => spool.bytes)
  return counts
}
