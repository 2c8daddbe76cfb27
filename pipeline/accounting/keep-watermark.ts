/** Keeps the watermark: the moment of receipt before which every acknowledged event is stored. */
import type { JetStreamManager } from '@nats-io/jetstream'
import type { KV } from '@nats-io/kv'
import { type ClickHouse, PAST_USER_VIEWS, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { DEAD_AFTER_MS } from '../stream/membership.ts'
import { describeWatermark, watermarkPart, type WatermarkState } from './describe-watermark.ts'
import { IngestEntries } from './ingest-entries.ts'
import { type StreamPosition, WatermarkProof } from './watermark-proof.ts'

/**
 * Interval between two rounds while events arrive, in milliseconds: a question to ingest, one about the stream, a row.
 * At 20,000 events/s the p99 of the lag was 1.56 s with 200 and 1.32 s with 100; it must stay below 1.5 s.
 */
const ROUND_MS = 100

/** The same at rest, and the interval between two rows while the watermark stands still: what holds it may change. */
const REST_MS = 10 * ROUND_MS

/** Shortest interval between two rows in a replicated table, in milliseconds: each is a part there. */
export const REPLICATED_WRITE_MS = 500

/**
 * How long a process that finds an empty table writes nothing lower than what was announced before, in milliseconds.
 * Longer than ingest takes to answer again after a power failure, which was 21 s on a slow machine; after that it has
 * not come back.
 */
const RECALL_MS = 60_000

export interface WatermarkDeps {
  connection: NatsConnection
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  /** Resolves when the replicas of `events` have what was confirmed before. Absent on one node. */
  waitForReplicas?: () => Promise<void>
  bucket: KV
  /** Whether this process is the one that keeps it; null: not known, as without NATS. Two at a time do no harm. */
  leads: () => boolean | null
  /** Interval between two rounds while events arrive, in milliseconds. Default 100. */
  roundMs?: number
  /** Shortest interval between two rows, in milliseconds. Default 0: in each round. */
  writeMs?: number
  /** How long it waits to be where another process was, when the table does not say it. Default 60,000 ms. */
  recallMs?: number
  /** After so long without a round others take this process for dead, in milliseconds. Default: that of membership. */
  deadAfterMs?: number
  metrics: Metrics
  logger: Logger
}

/**
 * Proves and writes the watermark until stopped, in one process at a time. A process that takes over begins with a
 * proof of its own, and continues what the table says.
 */
export class WatermarkKeeper {
  readonly #deps: WatermarkDeps
  readonly #entries: IngestEntries
  readonly #loop: IntervalLoop
  readonly #nats: Outage
  readonly #clickhouse: Outage
  #manager: JetStreamManager | null = null
  #proof = new WatermarkProof()
  #position: StreamPosition | null = null
  /** What readers see: nothing is written that is ahead of it. */
  #reached: number | null = null
  /** This process stood still: another one may have kept it meanwhile, and have reached more. */
  #mayBeBehind = false
  #isKeeping = false
  #isResting = false
  /** Times of the monotonic clock. */
  #keepsSince = -Infinity
  #roundAt = -Infinity
  #writtenAt = -Infinity
  #writing: Promise<void> | null = null

  constructor (deps: WatermarkDeps) {
    const { connection, bucket, roundMs = ROUND_MS, metrics, logger } = deps
    this.#deps = deps
    this.#entries = new IngestEntries(connection, bucket, logger)
    this.#nats = new Outage(logger, 'NATS does not answer')
    this.#clickhouse = new Outage(logger, 'the watermark cannot be written to ClickHouse')
    metrics.gaugeFrom('watermark_lag_seconds', 'Age of the watermark; NaN while unknown, and in a process that does not keep it.',
      () => this.#isKeeping && this.#reached !== null ? this.#describe().lagMs / 1000 : Number.NaN)
    this.#loop = runAtIntervals({
      everyMs: () => this.#isResting || !this.#isKeeping ? REST_MS : roundMs,
      run: async () => await this.#round(),
      logger
    })
  }

  /** Nothing while another process keeps it. */
  parts (): HealthPart[] {
    return this.#isKeeping ? [watermarkPart(this.#describe())] : []
  }

  async stop (): Promise<void> {
    this.#entries.close()
    // A row under way is not waited for: one less does no harm, and ClickHouse may hang.
    await this.#loop.stop()
  }

  #describe (): WatermarkState {
    const outage = this.#nats.isNow ? this.#nats : this.#clickhouse.isNow ? this.#clickhouse : null
    return describeWatermark({
      completeThrough: this.#reached, position: this.#position, entries: this.#entries, outage
    })
  }

  async #round (): Promise<void> {
    this.#checkLead()
    if (!this.#isKeeping) {
      this.#proof = new WatermarkProof()
      this.#reached = null
      return
    }
    try {
      this.#isResting = await this.#prove()
      this.#nats.end()
    } catch (err) {
      this.#isResting = false
      this.#nats.note(err)
    }
    const { through } = this.#proof
    const moved = through !== null && through > (this.#reached ?? 0) && !this.#clickhouse.isNow
    const pauseMs = moved ? this.#deps.writeMs ?? 0 : REST_MS
    if (this.#writing !== null || performance.now() - this.#writtenAt < pauseMs) return
    // Proofs go on meanwhile, or a slow insert would make the next one older.
    this.#writtenAt = performance.now()
    this.#writing = this.#write().then(() => this.#clickhouse.end(), (err: unknown) => this.#clickhouse.note(err))
      .finally(() => { this.#writing = null })
  }

  #checkLead (): void {
    const now = performance.now()
    if (now - this.#roundAt > (this.#deps.deadAfterMs ?? DEAD_AFTER_MS)) {
      this.#mayBeBehind = true
      this.#keepsSince = now
    }
    this.#roundAt = now
    // Without NATS nobody knows who keeps it: the one that did goes on saying that it stands still.
    const keeps = this.#deps.leads() ?? this.#isKeeping
    if (keeps && !this.#isKeeping) this.#keepsSince = now
    this.#isKeeping = keeps
  }

  /** @returns whether nothing came since the round before, and nothing waits. */
  async #prove (): Promise<boolean> {
    await this.#entries.ask()
    const through = await this.#entries.publishedThrough()
    const before = this.#position?.last
    this.#manager ??= await manageJetStream(this.#deps.connection)
    // After that: whatever was published is at or before its last position.
    const position = this.#position = await readPosition(this.#manager)
    if (through !== null) this.#proof.claim(through, position)
    this.#proof.see(position)
    return position.last === before && position.first > position.last
  }

  async #write (): Promise<void> {
    const { clickhouse, leads, recallMs = RECALL_MS } = this.#deps
    // What the process before reached; few rows are kept, and one that is lower would in the end take the place of all.
    // Without NATS another process may have taken it over and advanced it.
    let isRecalled = this.#reached !== null && !this.#mayBeBehind
    if (!isRecalled || leads() === null) {
      const read = (await readCompleteThrough(clickhouse))?.getTime() ?? null
      if (read !== null) {
        this.#reached = Math.max(read, this.#reached ?? 0)
        isRecalled = true
      }
    }
    const through = Math.max(this.#proof.through ?? 0, this.#reached ?? 0)
    if (through === 0) return
    // ClickHouse was started again with this process, as after a power failure. Ingest's entries are some seconds older
    // than its last answers, so what they prove may be less than what was announced.
    const isLess = !isRecalled && through < this.#entries.announcedByOthers
    if (isLess && performance.now() < this.#keepsSince + recallMs) return
    // Or readers would miss events before it when the replica that confirmed them dies.
    await this.#deps.waitForReplicas?.()
    await clickhouse.command({
      query: INSERT, query_params: { through, held_by: this.#describe().heldBy },
      clickhouse_settings: { distributed_foreground_insert: 1, ...PAST_USER_VIEWS }
    })
    this.#reached = through
    this.#mayBeBehind = false
  }
}

/**
 * The time is that of ClickHouse, with whose clock readers compare it. A row is never less than those that are there:
 * few are kept, and who repeats what it has reached would take back what another process wrote.
 */
const INSERT = `INSERT INTO watermark_reached
  SELECT 0,
    greatest(fromUnixTimestamp64Milli({through: Int64}, 'UTC'), (SELECT max(complete_through) FROM watermark_reached)),
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
    this.#logger.warn({ err, what: this.what }, 'the watermark does not advance')
  }

  end = (): void => { this.isNow = false }
}
