/** Keeps the watermark: the moment of receipt before which every acknowledged event is stored. */
import { jetstreamManager } from '@nats-io/jetstream'
import type { KV } from '@nats-io/kv'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { HealthPart } from '../../platform/health.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { INGEST_BUCKET } from '../../schema/ingest-presence.ts'
import { EVENTS_STREAM } from '../../schema/streams.ts'
import { type IngestEntry, IngestEntries } from './ingest-entries.ts'
import { type StreamPosition, WatermarkProof } from './watermark-proof.ts'

/** Interval of the rounds, in milliseconds: an announcement and a question about the stream each. */
const ROUND_MS = 250

/** Shortest interval between two rows, in milliseconds. */
const WRITE_MS = 500

/** Interval of rows while the watermark stands still, in milliseconds: what it waits for may change. */
const STANDING_MS = 5000

/** From this lag on, in milliseconds, it is said what the watermark waits for. */
const HELD_MS = 5000

/** An entry that was not renewed for so long, in milliseconds, will hardly be: its process died or lost NATS. */
const SILENT_MS = 10_000

export interface WatermarkDeps {
  connection: NatsConnection
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  bucket: KV
  /** Whether this process is the one that keeps it. Two at a time do no harm. */
  isLeader: () => boolean
  metrics: Metrics
  logger: Logger
}

/** The keeping of one process. */
export interface WatermarkKeeper {
  /** Nothing while another process keeps it. */
  parts: () => HealthPart[]
  stop: () => Promise<void>
}

/** What the watermark waits for. */
export interface WatermarkState {
  /** Epoch milliseconds; null while nothing is proven. */
  completeThrough: number | null
  lagMs: number
  /** Empty while it is not far behind. */
  heldBy: string
  /** Whether somebody must do something before it can go on. */
  isStuck: boolean
}

/** Opens the bucket of ingest; creates it when it is missing. */
export async function openIngestBucket (connection: NatsConnection, { replicas }: { replicas: number }): Promise<KV> {
  return await openBucket(connection, INGEST_BUCKET, { history: 1, replicas, allow_direct: false })
}

/**
 * Proves and writes the watermark until stopped, in one process at a time. A process that takes over begins with a
 * proof of its own; the table keeps the maximum.
 */
export function keepWatermark (deps: WatermarkDeps): WatermarkKeeper {
  const { connection, clickhouse, isLeader, metrics, logger } = deps
  const entries = new IngestEntries(deps.bucket, logger)
  let proof = new WatermarkProof()
  let position: StreamPosition | null = null
  let written = { at: -Infinity, through: 0 }
  let writing: Promise<void> | null = null
  let failures = 0
  const state = (): WatermarkState => describeWatermark(proof.through, position, entries)
  metrics.gaugeFrom('watermark_lag_seconds', 'Time since the moment before which every acknowledged event is stored; NaN in a process that does not keep it, and while nothing is known.',
    () => isLeader() && proof.through !== null ? state().lagMs / 1000 : Number.NaN)

  async function round (): Promise<void> {
    if (!isLeader()) {
      proof = new WatermarkProof()
      return
    }
    const through = await entries.publishedThrough()
    // After that: whatever was published is at or before its last position.
    position = await readPosition(connection)
    if (through !== null) proof.claim(through, position)
    proof.see(position)
    const moved = proof.through !== null && proof.through > written.through && failures === 0
    if (proof.through === null || writing !== null) return
    if (performance.now() - written.at < (moved ? WRITE_MS : STANDING_MS)) return
    // Proofs go on meanwhile, or a slow insert would make the next one older.
    writing = write(proof.through).then(() => { failures = 0 }, (err: unknown) => {
      if (failures++ === 0) logger.warn({ err }, 'the watermark could not be written; it stands still')
    }).finally(() => { writing = null })
  }

  async function write (through: number): Promise<void> {
    written = { at: performance.now(), through }
    await clickhouse.insert({
      table: 'watermark_reached',
      values: [{
        id: 0,
        complete_through: toDateTime(through),
        state: { updated_at: toDateTime(entries.now()), held_by: state().heldBy }
      }],
      format: 'JSONEachRow',
      clickhouse_settings: { async_insert: 0, distributed_foreground_insert: 1 }
    })
  }

  const loop = runAtIntervals({
    everyMs: ROUND_MS, run: round, logger, failure: 'the watermark could not be proven; it stands still'
  })
  return {
    parts: () => isLeader() ? [toPart(state())] : [],
    async stop () {
      entries.close()
      // A row under way is not waited for: one less does no harm, and ClickHouse may hang.
      await loop.stop()
    }
  }
}

/** As ClickHouse reads it, with milliseconds. */
function toDateTime (at: number): string {
  return new Date(at).toISOString().slice(0, -1).replace('T', ' ')
}

async function readPosition (connection: NatsConnection): Promise<StreamPosition> {
  const { created, state } = await (await jetstreamManager(connection)).streams.info(EVENTS_STREAM)
  const { messages, first_seq: first, last_seq: last } = state
  return { life: created, first: messages === 0 ? last + 1 : first, last }
}

/** Tells how far the watermark is behind, and what it waits for: the ingest that is furthest behind, or the stream. */
export function describeWatermark (
  completeThrough: number | null, position: StreamPosition | null, entries: Pick<IngestEntries, 'oldest' | 'now'>
): WatermarkState {
  const now = entries.now()
  const { oldest } = entries
  const lagMs = completeThrough === null ? 0 : Math.max(0, now - completeThrough)
  if (oldest === null) return { completeThrough, lagMs, heldBy: 'no ingest process has ever reached NATS', isStuck: false }
  const ingestLagMs = now - oldest.presence.publishedThrough
  if (completeThrough !== null && lagMs < HELD_MS) return { completeThrough, lagMs, heldBy: '', isStuck: false }
  if (ingestLagMs < HELD_MS) {
    const waiting = position === null ? 'messages' : `${position.last - position.first + 1} messages at most`
    return { completeThrough, lagMs, heldBy: `stream EVENTS: ${waiting} wait to be stored`, isStuck: false }
  }
  return { completeThrough, lagMs, ...blameIngest(oldest, now) }
}

function blameIngest ({ key, presence, storedAt }: IngestEntry, now: number): Pick<WatermarkState, 'heldBy' | 'isStuck'> {
  const who = `ingest ${key.slice('spool.'.length)} on ${presence.host} (${presence.folder})`
  if (now - storedAt > SILENT_MS) {
    const left = presence.spoolBytes > 0 ? `, with ${presence.spoolBytes} bytes in its spool` : ''
    return {
      heldBy: `${who}: not heard of since ${new Date(storedAt).toISOString()}${left}; start it again with its folder, or if that is lost: npx millrace watermark forget`,
      isStuck: true
    }
  }
  const waits = presence.spoolBytes > 0
    ? `${presence.spoolBytes} bytes wait in its spool`
    : presence.publishedThrough === 0 ? 'it has just started' : `${presence.inFlight} requests and messages are in flight`
  return { heldBy: `${who}: ${waits}`, isStuck: false }
}

function toPart ({ completeThrough, lagMs, heldBy, isStuck }: WatermarkState): HealthPart {
  return {
    name: 'watermark',
    healthy: !isStuck,
    lagMs: Math.round(lagMs),
    completeThrough: completeThrough === null ? null : new Date(completeThrough).toISOString(),
    heldBy
  }
}
