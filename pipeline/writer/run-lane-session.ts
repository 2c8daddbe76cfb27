import { type NatsConnection } from '../../platform/connect-nats.ts'
import { type Logger } from '../../platform/logger.ts'
import { type DuplicateFilter } from '../duplicates/duplicate-filter.ts'
import { claimLane, startNextLife, type LaneHold } from '../lanes/claim-lane.ts'
import { cutToken, laneKey, type Cut, type Lane, type LaneRecord } from '../lanes/lane-record.ts'
import { type LaneRecords } from '../lanes/lane-records.ts'
import { type LaneState } from '../lanes/lane-state.ts'
import { type PipelineMetrics } from '../metrics.ts'
import { buildFrames } from './build-frames.ts'
import { chooseBatch, type BatchLimits, type SearchLimits } from './choose-batch.ts'
import { type InsertError, type InsertFrames } from './insert-frames.ts'
import { INSERT_SETTINGS_VERSION } from './insert-settings.ts'
import { type LaneMessage } from './lane-message.ts'
import { openLaneReader, type LaneReader } from './open-lane-reader.ts'
import { storeCut } from './store-cut.ts'

/** What a lane needs from its process. */
export interface LaneDeps {
  lane: Lane
  state: LaneState
  /** Id of this process in lane records. */
  owner: string
  connection: NatsConnection
  records: LaneRecords
  insertFrames: InsertFrames
  limits: BatchLimits
  metrics: PipelineMetrics
  logger: Logger
  isAlive: (owner: string) => boolean
  /** @param wasMine  What this process remembers of the lane is complete. */
  openDuplicateFilter: (lane: Lane, options: { wasMine: boolean }) => Promise<DuplicateFilter>
  stop: AbortSignal
  abort: AbortSignal
}

/** How often the server is asked for the lag, in milliseconds. */
const PENDING_INTERVAL_MS = 3000

const UNLIMITED: SearchLimits = { messages: Infinity, rows: Infinity }

/**
 * One session of a lane: claim it, replay the cut that was under way, then take messages, cut, insert, settle and
 * acknowledge them, until told to stop.
 *
 * @throws {FencedError} when the lane went to another owner; anything else that a fresh session may overcome.
 */
export async function runLaneSession (deps: LaneDeps): Promise<void> {
  const { lane, state } = deps
  const claimed = await claimLane(lane, deps)
  if (claimed === null) {
    state.phase = 'elsewhere'
    return
  }
  const reader = await openLaneReader(deps.connection, lane, { maxBytes: deps.limits.maxBytes })
  const timer = setInterval(() => { void refreshPending(reader, state) }, PENDING_INTERVAL_MS)
  const session = new LaneSession(deps, claimed.hold, reader)
  try {
    await session.run(await deps.openDuplicateFilter(lane, claimed))
  } finally {
    clearInterval(timer)
    reader.close()
    if (deps.stop.aborted) await session.release()
  }
}

async function refreshPending (reader: LaneReader, state: LaneState): Promise<void> {
  try {
    state.pendingMessages = (await reader.readPending()).messages
  } catch {
    // The lag is not known for a moment. What is wrong shows where the lane reads and writes.
  }
}

class LaneSession {
  readonly #deps: LaneDeps
  readonly #hold: LaneHold
  readonly #reader: LaneReader
  #filter!: DuplicateFilter
  /** The record as it will be written next; ahead of `hold.record` by what was settled since. */
  #next: LaneRecord
  /** Settled messages that may be acknowledged once `#next` is written. */
  #settled: LaneMessage[] = []
  #search = UNLIMITED
  #lastCutAt = -Infinity
  /** Messages up to here belong to a cut that cannot be replayed exactly: every row of them is looked up. */
  #lookUpTo = 0

  constructor (deps: LaneDeps, hold: LaneHold, reader: LaneReader) {
    this.#deps = deps
    this.#hold = hold
    this.#reader = reader
    this.#next = hold.record
  }

  async run (filter: DuplicateFilter): Promise<void> {
    this.#filter = filter
    const { stop, state } = this.#deps
    await this.#replayRecordedCut()
    state.phase = 'running'
    while (!stop.aborted) {
      if (this.#reader.failure !== null) throw this.#reader.failure
      this.#skipSettled()
      const count = this.#countDue()
      if (count > 0) {
        await this.#storeBatch(this.#reader.take(count))
      } else {
        await this.#writeDown()
        state.oldestStoredAt = this.#reader.buffer[0]?.storedAt ?? 0
        await this.#reader.waitForMore(this.#msUntilDue(), stop)
      }
    }
    await this.#writeDown()
  }

  /** Gives the lane up, with the cut that may be under way. */
  async release (): Promise<void> {
    await this.#hold.write({ ...this.#hold.record, owner: '' })
  }

  /** Inserts the cut that the record names exactly as it was: the last owner may have inserted it or not. */
  async #replayRecordedCut (): Promise<void> {
    const { cut } = this.#hold.record
    if (cut === null) return
    const { stop, logger, lane } = this.#deps
    while (!await this.#hasAllUpTo(cut.last)) {
      await this.#reader.waitForMore(1000, stop)
      if (this.#reader.failure !== null) throw this.#reader.failure
      if (stop.aborted) return
    }
    this.#skipSettled()
    const count = this.#reader.buffer.findLastIndex((message) => message.sequence <= cut.last) + 1
    if (count !== cut.messages) {
      // Somebody removed messages from the stream. The token would not be recognised with another number of blocks.
      logger.error({ lane: laneKey(lane), expected: cut.messages, found: count }, 'messages of a recorded cut are gone')
      this.#lookUpTo = cut.last
      this.#next = { ...this.#next, cut: null }
      return
    }
    const messages = this.#reader.take(count)
    this.#filter.remember(messages)
    logger.info({ lane: laneKey(lane), first: cut.first, last: cut.last }, 'replaying the recorded cut')
    await this.#insertCut(messages, cut)
  }

  async #hasAllUpTo (sequence: number): Promise<boolean> {
    if ((this.#reader.buffer.at(-1)?.sequence ?? 0) >= sequence) return true
    const pending = await this.#reader.readPending()
    return pending.messages <= this.#reader.buffer.length
  }

  /** Acknowledges what a previous session settled but did not acknowledge any more. */
  #skipSettled (): void {
    const { buffer } = this.#reader
    let count = 0
    for (const { sequence, storedAt } of buffer) {
      if (sequence > this.#next.done) break
      if (storedAt > this.#next.doneAt + 1) {
        // Younger than the last settled one, but with a lower number: the stream lost its end and counts again.
        this.#deps.logger.error({ lane: laneKey(this.#deps.lane), sequence }, 'the stream gave numbers out again')
        this.#next = startNextLife(this.#next, sequence - 1)
        break
      }
      count++
    }
    if (count > 0) this.#reader.acknowledge(this.#reader.take(count))
  }

  #countDue (): number {
    const { count, full } = chooseBatch(this.#reader.buffer, this.#deps.limits, this.#search)
    return full || this.#msUntilDue() <= 0 ? count : 0
  }

  /** After a pause the first message goes at once; in a steady flow batches follow each other in the given rhythm. */
  #msUntilDue (): number {
    if (this.#reader.buffer.length === 0) return PENDING_INTERVAL_MS
    return this.#lastCutAt + this.#deps.limits.maxAgeMs - performance.now()
  }

  async #storeBatch (messages: LaneMessage[]): Promise<void> {
    this.#lastCutAt = performance.now()
    this.#deps.state.oldestStoredAt = messages[0]!.storedAt
    const cut = await this.#planCut(messages)
    this.#next = { ...this.#next, cut }
    await this.#writeDown()
    await this.#insertCut(messages, cut)
  }

  async #planCut (messages: readonly LaneMessage[]): Promise<Cut> {
    const first = messages[0]!
    const last = messages.at(-1)!
    const lookUpAll = first.sequence <= this.#lookUpTo
    return {
      first: first.sequence,
      last: last.sequence,
      messages: messages.length,
      layout: first.layout,
      settings: INSERT_SETTINGS_VERSION,
      leftOut: await this.#filter.decide(messages, { lookUpAll })
    }
  }

  async #insertCut (messages: LaneMessage[], cut: Cut): Promise<void> {
    const { lane, state, metrics, logger, stop, abort } = this.#deps
    const key = { lane: laneKey(lane) }
    const startedAt = performance.now()
    const outcome = await storeCut({
      insertFrames: this.#deps.insertFrames,
      hold: this.#hold,
      frames: await buildFrames(messages, cut),
      token: cutToken(lane, this.#next.stream, cut),
      settingsVersion: cut.settings,
      logger,
      stop,
      abort,
      onRetry: (error) => {
        state.phase = 'retrying'
        state.lastError = error.message
        metrics.insertRetries.inc({ ...key, code: error.clickhouseCode })
      }
    })
    if (outcome.kind === 'stopped') return
    state.phase = 'running'
    if (outcome.kind === 'refused') {
      metrics.refusedBatches.inc({ ...key, code: outcome.error.clickhouseCode })
      await this.#searchRefused(messages, cut, outcome.error)
      return
    }
    metrics.insertSeconds.observe(key, (performance.now() - startedAt) / 1000)
    this.#settle(messages, cut)
  }

  async #searchRefused (messages: LaneMessage[], cut: Cut, error: InsertError): Promise<void> {
    throw error
  }

  #settle (messages: LaneMessage[], cut: Cut): void {
    const last = messages.at(-1)!
    this.#next = { ...this.#next, done: last.sequence, doneAt: last.storedAt, doneRows: 0, cut: null }
    this.#settled.push(...messages)
    const { metrics, lane } = this.#deps
    const key = { lane: laneKey(lane) }
    const leftOut = countLeftOut(cut)
    const rows = messages.reduce((sum, message) => sum + message.rows, -leftOut)
    metrics.leftOutRows.inc(key, leftOut)
    metrics.storedRows.inc(key, rows)
    metrics.storedBatches.inc(key)
    metrics.batchRows.observe(key, rows)
  }

  /** Makes what was settled durable, then lets the stream forget it. */
  async #writeDown (): Promise<void> {
    if (this.#next === this.#hold.record) return
    await this.#hold.write(this.#next)
    this.#reader.acknowledge(this.#settled)
    this.#settled = []
  }
}

function countLeftOut (cut: Cut): number {
  let rows = 0
  for (const [, ranges] of cut.leftOut) {
    for (let i = 0; i < ranges.length; i += 2) rows += ranges[i + 1]! - ranges[i]!
  }
  return rows
}
