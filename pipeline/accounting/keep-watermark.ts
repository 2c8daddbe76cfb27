/** Keeps the watermark: the moment of receipt before which every acknowledged event is stored. */
import type { JetStreamManager } from '@nats-io/jetstream'
import type { KV } from '@nats-io/kv'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream, openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { readCompleteThrough } from '../../platform/read-watermark.ts'
import { INGEST_BUCKET } from '../../schema/wire/ingest-presence.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { DEAD_AFTER_MS } from '../stream/membership.ts'
import { describeWatermark, watermarkPart, type WatermarkState } from './describe-watermark.ts'
import { IngestEntries } from './ingest-entries.ts'
import { type StreamPosition, WatermarkProof } from './watermark-proof.ts'

/**
 * Interval of the rounds while events come, in milliseconds: a question to ingest, one about the stream, and a row.
 * For partitions of other processes; at 20,000 events/s the p99 of the lag was 1.56 s with 200 and 1.32 s with 100.
 */
const BUSY_MS = 100

/**
 * The same where every partition is of this process, in milliseconds. It knows when a batch is taken and when it is
 * acknowledged, and what happens in between moves nothing.
 */
const TOLD_MS = 450

/** So long before the next batch is due, in milliseconds, everything that it will hold is claimed. */
const CLAIM_AHEAD_MS = 40

/** Interval of claims after that, in milliseconds, while the batch before takes longer and puts the next one off. */
const OVERDUE_MS = 100

/** So long after acknowledgements were sent, in milliseconds, the stream has forgotten their messages. */
const FORGOTTEN_MS = 20

/** Shortest interval between two rounds, in milliseconds, however many partitions tell of batches. */
const ROUND_MS = 60

/** Interval of the rounds while nothing comes, in milliseconds. */
const REST_MS = 1000

/** Shortest interval between two rows in a table that is replicated, where each is a part, in milliseconds. */
export const REPLICATED_WRITE_MS = 500

/** Interval of rows while the watermark stands still, in milliseconds: what it waits for may change. */
const STANDING_MS = 2000

/**
 * So long a process that finds an empty table says nothing that may be lower than what was said before, in
 * milliseconds. Longer than ingest takes to answer again after a power failure, which was 21 s on a slow machine; after
 * that it has not come back.
 */
const RECALL_MS = 60_000

export interface WatermarkDeps {
  connection: NatsConnection
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  bucket: KV
  /** Whether this process is the one that keeps it; null: not known, as without NATS. Two at a time do no harm. */
  leads: () => boolean | null
  /** Whether every partition of events is of this process, which calls `batchTaken` and `acknowledged`. Default: no. */
  hasAllPartitions?: () => boolean
  /** After so long a partition takes its next batch, in milliseconds. Default: the interval of the rounds. */
  batchMs?: number
  /** Shortest interval between two rows, in milliseconds. Default 0: in each round. */
  writeMs?: number
  /** How long it waits to be where another process was, when the table does not say it. Default 60,000 ms. */
  recallMs?: number
  /** After so long without a round others take this process for dead, in milliseconds. Default: that of membership. */
  deadAfterMs?: number
  metrics: Metrics
  logger: Logger
}

/** The keeping of one process. */
export interface WatermarkKeeper {
  /** Nothing while another process keeps it. */
  parts: () => HealthPart[]
  /** A partition has taken a batch: messages that come now wait for the next one. */
  batchTaken: () => void
  /** A partition has acknowledged a batch: something may be proven now. */
  acknowledged: () => void
  stop: () => Promise<void>
}

/** Opens the bucket of ingest; creates it when it is missing. */
export async function openIngestBucket (connection: NatsConnection, { replicas }: { replicas: number }): Promise<KV> {
  return await openBucket(connection, INGEST_BUCKET, { history: 1, replicas, allow_direct: false })
}

/**
 * Proves and writes the watermark until stopped, in one process at a time. A process that takes over begins with a
 * proof of its own, and continues what the table says.
 */
export function keepWatermark (deps: WatermarkDeps): WatermarkKeeper {
  const { connection, clickhouse, leads, metrics, logger } = deps
  const { writeMs = 0, recallMs = RECALL_MS, deadAfterMs = DEAD_AFTER_MS } = deps
  const { hasAllPartitions = () => false, batchMs = BUSY_MS } = deps
  const entries = new IngestEntries(connection, deps.bucket, logger)
  const outages = {
    nats: new Outage(logger, 'NATS does not answer'),
    clickhouse: new Outage(logger, 'ClickHouse takes no row of the watermark')
  }
  let manager: JetStreamManager | null = null
  let proof = new WatermarkProof()
  let position: StreamPosition | null = null
  /** What readers see: nothing is said that is ahead of it. */
  let reached: number | null = null
  /** This process stood still: another one may have kept it meanwhile, and have reached more. */
  let mayBeBehind = false
  let isKeeping = false
  let keepsSince = -Infinity
  let writtenAt = -Infinity
  let writing: Promise<void> | null = null
  let isResting = false
  let roundAt = -Infinity
  /** When the next claim is to be made; a round before that only looks at the stream, if it was told to. */
  let claimAt = -Infinity
  let isTold = false
  /** Whether that claim repeats one whose batch did not come yet. */
  let isRepeated = false
  const state = (): WatermarkState => {
    const outage = outages.nats.isNow ? outages.nats : outages.clickhouse.isNow ? outages.clickhouse : null
    return describeWatermark({ completeThrough: reached, position, entries, outage })
  }
  metrics.gaugeFrom('watermark_lag_seconds', 'Time since the moment before which every acknowledged event is stored; NaN in a process that does not keep it, and while nothing is known.',
    () => isKeeping && reached !== null ? state().lagMs / 1000 : Number.NaN)

  /** @returns whether nothing came since the round before, and nothing waits. */
  async function prove (): Promise<boolean> {
    const claims = !isTold || performance.now() >= claimAt
    isTold = false
    let through: number | null = null
    if (claims) {
      claimAt = performance.now() + OVERDUE_MS
      isRepeated = true
      await entries.ask()
      through = await entries.publishedThrough()
    }
    const before = position?.last
    manager ??= await manageJetStream(connection)
    // After that: whatever was published is at or before its last position.
    position = await readPosition(manager)
    if (through !== null) proof.claim(through, position)
    proof.see(position)
    return claims && position.last === before && position.first > position.last
  }

  async function round (): Promise<void> {
    const now = performance.now()
    if (now - roundAt > deadAfterMs) {
      mayBeBehind = true
      keepsSince = now
    }
    roundAt = now
    // Without NATS nobody knows who keeps it: the one that did goes on saying that it stands still.
    const wasKeeping = isKeeping
    isKeeping = leads() ?? isKeeping
    if (isKeeping && !wasKeeping) keepsSince = now
    if (!isKeeping) {
      proof = new WatermarkProof()
      reached = null
      return
    }
    try {
      isResting = await prove()
      outages.nats.end()
    } catch (err) {
      isResting = false
      outages.nats.note(err)
    }
    const moved = proof.through !== null && proof.through > (reached ?? 0) && !outages.clickhouse.isNow
    if (writing !== null || performance.now() - writtenAt < (moved ? writeMs : STANDING_MS)) return
    // Proofs go on meanwhile, or a slow insert would make the next one older.
    writtenAt = performance.now()
    writing = write().then(() => outages.clickhouse.end(), (err: unknown) => outages.clickhouse.note(err))
      .finally(() => { writing = null })
  }

  async function write (): Promise<void> {
    // What the process before reached; few rows are kept, and one that is lower would in the end take the place of all.
    // Without NATS another one may keep it by now, and have reached more.
    let isRecalled = reached !== null && !mayBeBehind
    if (!isRecalled || leads() === null) {
      const read = (await readCompleteThrough(clickhouse))?.getTime() ?? null
      if (read !== null) {
        reached = Math.max(read, reached ?? 0)
        isRecalled = true
      }
    }
    const through = Math.max(proof.through ?? 0, reached ?? 0)
    if (through === 0) return
    // ClickHouse was started again with this process, as after a power failure. Ingest's entries are some seconds older
    // than its last answers, so what they prove may be less than what was said.
    const isLess = !isRecalled && through < entries.announcedByOthers
    if (isLess && performance.now() < keepsSince + recallMs) return
    await clickhouse.command({
      query: INSERT, query_params: { through, held_by: state().heldBy },
      clickhouse_settings: { distributed_foreground_insert: 1 }
    })
    reached = through
    mayBeBehind = false
  }

  const soon = (ms: number): void => loop.soon(Math.max(ms, roundAt + ROUND_MS - performance.now()))
  const everyMs = (): number => {
    if (isResting || !isKeeping) return REST_MS
    if (!hasAllPartitions()) return BUSY_MS
    // One that was asked for while this round ran.
    const now = performance.now()
    const askedMs = Math.min(claimAt - now, isTold ? 0 : Infinity)
    return Math.min(TOLD_MS, Math.max(askedMs, roundAt + ROUND_MS - now))
  }
  const loop = runAtIntervals({ everyMs, run: round, logger })
  return {
    batchTaken () {
      const inMs = Math.max(0, batchMs - CLAIM_AHEAD_MS)
      claimAt = Math.min(isRepeated ? Infinity : claimAt, performance.now() + inMs)
      isRepeated = false
      if (isKeeping) soon(inMs)
    },
    acknowledged () {
      isTold = true
      if (isKeeping) soon(FORGOTTEN_MS)
    },
    parts: () => isKeeping ? [watermarkPart(state())] : [],
    async stop () {
      entries.close()
      // A row under way is not waited for: one less does no harm, and ClickHouse may hang.
      await loop.stop()
    }
  }
}

/** The time is that of ClickHouse, with whose clock readers compare it. */
const INSERT = `INSERT INTO watermark_reached SELECT 0, fromUnixTimestamp64Milli({through: Int64}, 'UTC'),
  tuple(now64(3, 'UTC'), {held_by: String})`

async function readPosition (manager: JetStreamManager): Promise<StreamPosition> {
  const { created, state } = await readStreamInfo(manager, EVENTS_STREAM)
  const { messages, first_seq: first, last_seq: last } = state
  return { life: created, first: messages === 0 ? last + 1 : first, last }
}

/** A store that does not do its part: since when, and one line in the log for each outage. */
class Outage {
  readonly #logger: Logger
  readonly what: string
  since = 0
  isNow = false

  constructor (logger: Logger, what: string) {
    this.#logger = logger
    this.what = what
  }

  note (err: unknown): void {
    if (this.isNow) return
    this.isNow = true
    this.since = Date.now()
    this.#logger.warn({ err, what: this.what }, 'the watermark stands still')
  }

  end (): void {
    this.isNow = false
  }
}
