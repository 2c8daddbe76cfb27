import type { Logger } from '../../platform/logger.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import type { BatchRange } from '../stream/partition-records.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import type { SearchLimits } from './batch-range.ts'
import { openBlock } from './dead-letter-refused-rows.ts'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import type { InsertError } from './insert/insert-frames.ts'
import type { PartitionMessage } from './events-reader.ts'

/**
 * After an unknown error, and while nothing else is stored, nothing is dead-lettered for so long, in milliseconds:
 * ClickHouse may be failing rather than the row.
 */
const UNKNOWN_PATIENCE_MS = 120_000

const UNLIMITED: SearchLimits = { messages: Infinity, rows: Infinity }

export interface RefusedRowSearchDeps {
  state: PartitionState
  /** Whether the table is as every frame expects it. */
  probeTable: () => Promise<boolean>
  logger: Logger
  stop: AbortSignal
}

/** What ClickHouse refuses: one row of a message, or the whole message if its block cannot be read. */
export interface RefusedPiece {
  row?: number
}

/**
 * The search for the row that ClickHouse refuses.
 *
 * When ClickHouse refuses a batch range for its rows, nothing of it is stored, and the partition searches: the next
 * batch range is half as large, then half of that, down to one message and within it to one row, which is
 * dead-lettered. Each piece is a recorded batch range with a token of its own, so a crash anywhere in the search is
 * repeated like any other. With every success the batch ranges grow again:
 *
 * ```
 *   messages   8        4        2       4        2        1       2        1
 *              refused  refused  stored  refused  refused  stored  refused  refused: its rows are halved likewise
 * ```
 */
export class RefusedRowSearch {
  /** How much the next batch range may hold. */
  limits = UNLIMITED
  readonly #deps: RefusedRowSearchDeps
  /** Start of the search on the monotonic clock, and whether anything was stored since. */
  #searchedSince = 0
  #storedSince = false
  #waits = 0
  /** The row that was refused just now, after which the table was found to be as it should. */
  #suspect = ''

  constructor (deps: RefusedRowSearchDeps) {
    this.#deps = deps
  }

  /**
   * Narrows the search after a batch range was refused. Waits a moment where ClickHouse, not a row, may be the cause.
   *
   * @returns the refused rows, once found; null while the messages have to be retried in smaller pieces.
   */
  async narrow (
    messages: readonly PartitionMessage[], range: BatchRange, error: InsertError
  ): Promise<RefusedPiece | null> {
    if (this.limits.messages === Infinity && this.limits.rows === Infinity) {
      this.#searchedSince = performance.now()
      this.#storedSince = false
    }
    if (messages.length > 1) {
      this.limits = { ...this.limits, messages: Math.ceil(messages.length / 2) }
      return null
    }
    const [message] = messages
    if (message === undefined) return null
    const isReadable = await openBlock(message) !== null
    if (await this.#mayBeClickHouse(error, isReadable)) {
      this.#deps.logger.error({ err: error, partition: this.#deps.state.key }, 'cannot tell whether the row or ClickHouse is at fault; the partition waits and retries')
      this.#suspect = ''
      this.#deps.state.fail(error)
      await pause(retryDelayMs(this.#waits++), this.#deps.stop)
      return null
    }
    const [from, to] = range.rows ?? [0, message.rows]
    if (!isReadable) return {}
    if (to - from <= 1) {
      // A migration may have ended between the refusal and the look at the table: the row is tried once more.
      const row = `${message.sequence}:${from}`
      const isFirst = classifyClickHouseError(error).action === 'mismatch' && this.#suspect !== row
      this.#suspect = isFirst ? row : ''
      return isFirst ? null : { row: from }
    }
    this.limits = { messages: 1, rows: Math.ceil((to - from) / 2) }
    return null
  }

  /** Widens the search after messages were stored. A limit that was not reached is obsolete. */
  widen (messages: number): void {
    const isReached = messages >= this.limits.messages
    this.limits = { messages: isReached ? this.limits.messages * 2 : Infinity, rows: this.limits.rows * 2 }
    this.#storedSince = true
  }

  /** A batch range is stored or dead-lettered. After the last piece of a message the next message goes whole again. */
  advance (isMessageComplete: boolean): void {
    this.#waits = 0
    if (isMessageComplete) this.limits = { ...this.limits, rows: Infinity }
  }

  /** Whether ClickHouse, not a row, may be the cause of the refusal. */
  async #mayBeClickHouse (error: InsertError, isReadable: boolean): Promise<boolean> {
    if (!await this.#deps.probeTable()) return true
    if (!isReadable || this.#storedSince || classifyClickHouseError(error).action !== 'unknown') return false
    return performance.now() - this.#searchedSince < UNKNOWN_PATIENCE_MS
  }
}
