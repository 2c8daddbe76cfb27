import { MillraceError } from '../../platform/errors.ts'
import { ROW_LAYOUT } from '../../schema/event-row.ts'
import { HEADER } from '../../schema/streams.ts'
import { type DuplicateFilter } from '../duplicates/duplicate-filter.ts'
import { type LaneHold } from '../lanes/claim-lane.ts'
import { cutToken, type Cut } from '../lanes/lane-record.ts'
import { buildFrames } from './batch/build-frames.ts'
import { chooseBatch, type SearchLimits } from './batch/choose-batch.ts'
import { classifyClickHouseError } from './insert/classify-clickhouse-error.ts'
import { countStored } from './settle/count-stored.ts'
import { type InsertError } from './insert/insert-frames.ts'
import { INSERT_SETTINGS_VERSION } from './insert/insert-settings.ts'
import { type LaneMessage } from './read/lane-message.ts'
import { LaneProgress } from './settle/lane-progress.ts'
import { type LaneReader } from './read/lane-reader.ts'
import { pause, retryDelayMs } from '../../platform/retry-delay.ts'
import { type LaneDeps } from './run-lane-session.ts'
import { openBlock, setAside } from './settle/set-aside.ts'
import { storeCut } from './insert/store-cut.ts'

/** How long an idle lane waits at most before it looks around again, in milliseconds. */
const IDLE_MS = 3000

/**
 * With an error that nobody knows, and without any success in between, nothing is set aside for so long, in
 * milliseconds: it may be ClickHouse that is ill, not the row.
 */
const UNKNOWN_PATIENCE_MS = 120_000

const UNLIMITED: SearchLimits = { messages: Infinity, rows: Infinity }

/**
 * Takes messages, cuts, inserts and settles them, one cut at a time.
 *
 * When ClickHouse refuses a cut for its rows, nothing of it is stored, and the lane searches: the next cut is half as
 * large, then half of that, down to one message and within it to one row, which is set aside. Each piece is a recorded
 * cut with a token of its own, so a crash anywhere in the search is repeated like any other. With every success the
 * cuts grow again.
 */
export class LaneSession {
  readonly #deps: LaneDeps
  readonly #reader: LaneReader
  readonly #hold: LaneHold
  readonly #filter: DuplicateFilter
  readonly #progress: LaneProgress
  #search = UNLIMITED
  /** When the search began, on the monotonic clock, and whether anything was stored since. */
  #searchedSince = 0
  #storedSince = false
  #lastCutAt = -Infinity
  /** Messages up to here belong to a cut that cannot be repeated exactly: every row of them is looked up. */
  #lookUpTo = 0
  #waits = 0

  constructor (deps: LaneDeps, parts: { hold: LaneHold, reader: LaneReader, filter: DuplicateFilter }) {
    this.#deps = deps
    this.#hold = parts.hold
    this.#reader = parts.reader
    this.#filter = parts.filter
    this.#progress = new LaneProgress(parts.hold, parts.reader)
  }

  async run (): Promise<void> {
    const { stop, state } = this.#deps
    await this.#waitIfNewer(this.#hold.record.cut?.layout)
    await this.#repeatRecordedCut()
    state.phase = 'running'
    while (!stop.aborted) {
      if (this.#reader.failure !== null) throw this.#reader.failure
      this.#skipSettled()
      const count = this.#countDue()
      if (count > 0) {
        await this.#waitIfNewer(this.#reader.buffer[0]!.layout)
        if (!stop.aborted) await this.#storeBatch(this.#reader.take(count))
      } else {
        await this.#progress.write()
        state.oldestStoredAt = this.#reader.buffer[0]?.storedAt ?? 0
        await this.#reader.waitForMore(this.#msUntilDue(), stop)
      }
    }
    await this.#progress.write()
  }

  /**
   * Older layouts only lack columns, which get their defaults. A newer one has columns that this process does not know:
   * ClickHouse would refuse its rows, and they would be set aside for nothing. They wait for a newer process instead.
   */
  async #waitIfNewer (layout = 0): Promise<void> {
    const { stop, state, logger } = this.#deps
    if (layout <= ROW_LAYOUT || stop.aborted) return
    const error = new MillraceError('PIPE_LAYOUT_NEWER', `row layout ${layout} of the lane is newer than this process, ` +
      `which knows ${ROW_LAYOUT}: end it and start the newer version`, { action: 'stop', details: { layout } })
    logger.error({ err: error, lane: state.key }, 'the lane waits for a newer version')
    state.fail(error)
    while (!stop.aborted) await pause(IDLE_MS, stop)
  }

  /** Inserts the cut that the record names exactly as it was: the last owner may have inserted it or not. */
  async #repeatRecordedCut (): Promise<void> {
    const { cut } = this.#hold.record
    if (cut === null) return
    const { stop, logger, state } = this.#deps
    while (!await this.#hasAllUpTo(cut.last)) {
      await this.#reader.waitForMore(1000, stop)
      if (this.#reader.failure !== null) throw this.#reader.failure
      if (stop.aborted) return
    }
    this.#skipSettled()
    const count = this.#reader.buffer.findLastIndex((message) => message.sequence <= cut.last) + 1
    if (count !== cut.messages) {
      // Somebody removed messages from the stream. The token would not be recognised with another number of blocks.
      logger.error({ lane: state.key, expected: cut.messages, found: count }, 'messages of a recorded cut are gone')
      this.#lookUpTo = cut.last
      this.#progress.setCut(null)
      return
    }
    const messages = this.#reader.take(count)
    this.#filter.remember(messages)
    logger.info({ lane: state.key, first: cut.first, last: cut.last }, 'repeating the recorded cut')
    await this.#insertCut(messages, cut, true)
  }

  async #hasAllUpTo (sequence: number): Promise<boolean> {
    if ((this.#reader.buffer.at(-1)?.sequence ?? 0) >= sequence) return true
    return await this.#reader.readPending() <= this.#reader.buffer.length
  }

  #skipSettled (): void {
    const sequence = this.#progress.skipSettled()
    if (sequence !== null) {
      this.#deps.logger.error({ lane: this.#deps.state.key, sequence }, 'the stream gave numbers out again')
    }
  }

  #countDue (): number {
    // What remains of a split message goes alone: in a cut with others its settled rows would be inserted again.
    const search = this.#progress.doneRows > 0 ? { ...this.#search, messages: 1 } : this.#search
    const { count, full } = chooseBatch(this.#reader.buffer, this.#deps.limits, search)
    return full || this.#msUntilDue() <= 0 ? count : 0
  }

  /** After a pause the first message goes at once; in a steady flow batches follow each other in the given rhythm. */
  #msUntilDue (): number {
    if (this.#reader.buffer.length === 0) return IDLE_MS
    return this.#lastCutAt + this.#deps.limits.maxAgeMs - performance.now()
  }

  async #storeBatch (messages: LaneMessage[]): Promise<void> {
    this.#lastCutAt = performance.now()
    this.#deps.state.oldestStoredAt = messages[0]!.storedAt
    const cut = await this.#planCut(messages)
    if (cut.layout === -1) {
      await this.#setAside(messages, cut, null)
      return
    }
    this.#progress.setCut(cut)
    await this.#progress.write()
    await this.#insertCut(messages, cut)
  }

  async #planCut (messages: readonly LaneMessage[]): Promise<Cut> {
    const first = messages[0]!
    const { doneRows } = this.#progress
    const isPiece = messages.length === 1 && (doneRows > 0 || this.#search.rows < first.rows)
    return {
      first: first.sequence,
      last: messages.at(-1)!.sequence,
      messages: messages.length,
      ...(isPiece ? { rows: [doneRows, Math.min(doneRows + this.#search.rows, first.rows)] } : {}),
      layout: first.layout,
      settings: INSERT_SETTINGS_VERSION,
      leftOut: await this.#filter.decide(messages, { lookUpAll: first.sequence <= this.#lookUpTo })
    }
  }

  async #insertCut (messages: LaneMessage[], cut: Cut, isRepeated = false): Promise<void> {
    const { state, metrics, logger, stop, abort } = this.#deps
    const startedAt = performance.now()
    state.insertingSince = Date.now()
    const outcome = await storeCut({
      insertFrames: this.#deps.insertFrames,
      hold: this.#hold,
      frames: await buildFrames(messages, cut),
      token: this.#tokenOf(cut),
      requests: messages.map(({ headers }) => headers[HEADER.request] ?? ''),
      settingsVersion: cut.settings,
      logger,
      stop,
      abort,
      onRetry: (error) => {
        state.phase = 'retrying'
        state.lastError = error.message
        metrics.insertRetries.inc({ lane: state.key, code: error.clickhouseCode })
      }
    }).finally(() => { state.insertingSince = 0 })
    if (outcome.kind === 'stopped') return
    if (outcome.kind === 'refused') {
      metrics.refusedBatches.inc({ lane: state.key, code: outcome.error.clickhouseCode })
      if (outcome.doubtful || isRepeated) this.#doubt(messages)
      await this.#searchRefused(messages, cut, outcome.error)
      return
    }
    countStored(this.#deps, { messages, cut, ms: performance.now() - startedAt })
    // A limit that was not reached has served its time.
    const isReached = messages.length >= this.#search.messages
    this.#search = { messages: isReached ? this.#search.messages * 2 : Infinity, rows: this.#search.rows * 2 }
    this.#storedSince = true
    this.#settle(messages, cut)
  }

  /** These rows may be stored under the token of the cut; other tokens would not recognise them. */
  #doubt (messages: readonly LaneMessage[]): void {
    this.#lookUpTo = Math.max(this.#lookUpTo, messages.at(-1)!.sequence)
    for (const message of messages) delete message.leftOut
  }

  async #searchRefused (messages: LaneMessage[], cut: Cut, error: InsertError): Promise<void> {
    if (this.#search.messages === Infinity && this.#search.rows === Infinity) {
      this.#searchedSince = performance.now()
      this.#storedSince = false
    }
    const rows = cut.rows === undefined ? messages[0]!.rows : cut.rows[1] - cut.rows[0]
    if (messages.length > 1) {
      this.#search = { ...this.#search, messages: Math.ceil(messages.length / 2) }
    } else {
      const block = await openBlock(messages[0]!)
      if (await this.#mayBeClickHouse(error, block === null)) {
        this.#deps.logger.error({ err: error }, 'nothing is stored at the moment, the lane waits')
        this.#deps.state.fail(error)
        await pause(retryDelayMs(this.#waits++), this.#deps.stop)
      } else if (rows > 1 && block !== null) {
        this.#search = { messages: 1, rows: Math.ceil(rows / 2) }
      } else {
        await this.#setAside(messages, cut, error)
        return
      }
    }
    this.#progress.setCut(null)
    this.#reader.putBack(messages)
  }

  /** Whether the refusal may be no fault of the rows. */
  async #mayBeClickHouse (error: InsertError, isMalformed: boolean): Promise<boolean> {
    if (!await this.#deps.probeTable()) return true
    if (isMalformed || this.#storedSince || classifyClickHouseError(error).action !== 'unknown') return false
    return performance.now() - this.#searchedSince < UNKNOWN_PATIENCE_MS
  }

  async #setAside (messages: LaneMessage[], cut: Cut, error: InsertError | null): Promise<void> {
    const message = messages[0]!
    const isRow = error !== null && await openBlock(message) !== null
    const taken = await setAside(this.#deps, {
      message, error, token: this.#tokenOf(cut), ...(isRow ? { row: cut.rows?.[0] ?? 0 } : {})
    })
    if (taken) this.#settle(messages, cut)
  }

  #settle (messages: LaneMessage[], cut: Cut): void {
    this.#waits = 0
    // Not before: a refusal may be ClickHouse's that is ill, and health would call the lane well while it asks.
    this.#deps.state.phase = 'running'
    const remaining = this.#progress.settle(messages, cut)
    if (remaining !== null) this.#reader.putBack([remaining])
    else if (cut.rows !== undefined) this.#search = { ...this.#search, rows: Infinity }
  }

  #tokenOf (cut: Cut): string {
    return cutToken(this.#deps.lane, this.#progress.stream, cut)
  }
}
