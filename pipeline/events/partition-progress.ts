/** What follows a confirmed insert: progress is recorded, messages are acknowledged, rows are counted. */
import type { PipelineMetrics } from '../pipeline-metrics.ts'
import { addToLedger, type LedgerCounts, openLedger } from '../accounting/ledger-entries.ts'
import type { PartitionLedger } from '../../schema/wire/ledger.ts'
import { nextLifeOf, type PartitionLease, startNextLife } from '../stream/partition-lease.ts'
import type { BatchRange, PartitionRecord } from '../stream/partition-records.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { countRows, rangesWithin } from './row-ranges.ts'
import type { PartitionMessage, EventsReader } from './events-reader.ts'

/**
 * How far a partition is stored: known in memory at once, in the partition's record with the next write, and only then
 * acknowledged to the stream, which forgets acknowledged messages.
 */
export class PartitionProgress {
  readonly #lease: PartitionLease
  readonly #reader: EventsReader
  /** The record as it will be written next. */
  #next: PartitionRecord
  /** Stored or dead-lettered messages, which may be acknowledged once `#next` is written. */
  #acknowledged: PartitionMessage[] = []

  constructor (lease: PartitionLease, reader: EventsReader) {
    this.#lease = lease
    this.#reader = reader
    this.#next = lease.record
  }

  /** Identity of the stream's sequence numbers, for tokens. */
  get stream (): string {
    return this.#next.stream
  }

  /** Rows of the first message that are already stored or dead-lettered. */
  get doneRows (): number {
    return this.#next.doneRows
  }

  /** Batch ranges of which nobody knows whether they are stored. */
  get doubtful (): readonly BatchRange[] {
    return stillDoubtful(this.#next)
  }

  /** The batch range is given up, and rows of it may be stored. Recorded with the one that follows it. */
  doubt (range: BatchRange): void {
    const before = stillDoubtful(this.#next)
    // One that is tried for hours is the same each time.
    const isKnown = before.some((each) => JSON.stringify(each) === JSON.stringify(range))
    this.#next = { ...this.#next, range: null, doubtful: isKnown ? before : [...before, range] }
  }

  /**
   * Gives up a batch range that was inserted into another target. Tokens are others from here on: a shard that knows
   * the old ones would drop rows that another split brings to it.
   */
  leaveTarget (range: BatchRange): void {
    this.doubt(range)
    const { stream } = this.#next
    const doubtful = stillDoubtful(this.#next).map((each) => ({ stream, ...each }))
    this.#next = { ...this.#next, stream: nextLifeOf(stream), doubtful }
  }

  /** The batch range to be recorded with the next write. */
  setRange (range: BatchRange | null): void {
    this.#next = { ...this.#next, range }
  }

  /**
   * The rows of the batch range are stored or dead-lettered.
   *
   * @param counts  What became of its events: in the books with the same write as the progress, so exactly once.
   * @returns the message whose rest is still to be stored, when the batch range was a piece of it.
   */
  acknowledge (
    messages: readonly PartitionMessage[], range: BatchRange, counts: LedgerCounts = new Map()
  ): PartitionMessage | null {
    const last = messages.at(-1)
    if (last === undefined) return null
    const ledger = addToLedger(this.#lease.partition, this.#next, counts)
    if (range.rows !== undefined && range.rows[1] < last.rows) {
      this.#next = { ...this.#next, doneRows: range.rows[1], range: null, ledger }
      return last
    }
    const { since, messages: before } = this.#next.counted
    this.#next = {
      ...this.#next, done: last.sequence, doneAt: last.storedAt, doneRows: 0, range: null, ledger,
      counted: { since, messages: before + messages.length }
    }
    const { doubtful, ...rest } = this.#next
    if (doubtful !== undefined && stillDoubtful(this.#next).length === 0) this.#next = rest
    this.#acknowledged.push(...messages)
    return null
  }

  /** The books as they are recorded. */
  get recordedLedger (): PartitionLedger {
    return this.#lease.record.ledger
  }

  /** Closes minutes of the ledger with the next write. */
  closeEntries (close: (ledger: PartitionLedger) => PartitionLedger): void {
    const ledger = close(this.#next.ledger)
    if (ledger !== this.#next.ledger) this.#next = { ...this.#next, ledger }
  }

  /** The books no longer know the last minutes: they begin again, and those minutes are not compared. */
  reopenLedger (): void {
    const { entries } = this.#next.ledger
    this.#next = { ...this.#next, ledger: { ...openLedger(Date.now()), entries } }
  }

  /** Records the progress, then acknowledges its messages. */
  async write (): Promise<void> {
    if (this.#next === this.#lease.record) return
    await this.#lease.write(this.#next)
    this.#reader.acknowledge(this.#acknowledged)
    this.#acknowledged = []
  }

  /**
   * Acknowledges messages that an earlier session recorded as stored, but did not come to acknowledge.
   *
   * @returns the sequence at which the stream was found to reuse numbers, or null.
   */
  skipStored (): number | null {
    let count = 0
    let repeated: number | null = null
    for (const { sequence, storedAt } of this.#reader.buffer) {
      if (sequence > this.#next.done) break
      // Younger than the last stored one, but with a lower number: the stream lost its end and reuses numbers.
      if (storedAt > this.#next.doneAt + 1) {
        repeated = sequence
        this.#next = startNextLife(this.#next, sequence - 1)
        break
      }
      count++
    }
    if (count > 0) this.#reader.acknowledge(this.#reader.take(count))
    return repeated
  }
}

function stillDoubtful ({ doubtful = [], done }: PartitionRecord): BatchRange[] {
  return doubtful.filter(({ last }) => last > done)
}

/** Counts a confirmed insert: its rows, its deduplicated rows, and its duration in milliseconds. */
export function countStored ({ metrics, state }: { metrics: PipelineMetrics, state: PartitionState }, stored: {
  messages: readonly PartitionMessage[], range: BatchRange, ms: number
}): void {
  const { messages, range } = stored
  const partition = { partition: state.key }
  const deduplicated = countDeduplicated(range)
  const meant = range.rows === undefined
    ? messages.reduce((sum, message) => sum + message.rows, 0)
    : range.rows[1] - range.rows[0]
  metrics.deduplicatedRows.inc(partition, deduplicated)
  metrics.storedRows.inc(partition, meant - deduplicated)
  metrics.storedBatches.inc(partition)
  metrics.batchRows.observe(partition, meant - deduplicated)
  metrics.batchBytes.observe(partition, messages.reduce((sum, { payload }) => sum + payload.length, 0))
  const receivedAt = messages.reduce((oldest, message) => Math.min(oldest, message.receivedAt), Infinity)
  metrics.storedAgeSeconds.observe(partition, Math.max(0, Date.now() - receivedAt) / 1000)
  metrics.insertSeconds.observe(partition, stored.ms / 1000)
}

/** The deduplicated rows of the batch range; of a piece of a message only those within the piece. */
function countDeduplicated ({ deduplicated, rows: [from, to] = [0, Infinity] }: BatchRange): number {
  return deduplicated.reduce((sum, [, pairs]) => sum + countRows(rangesWithin(pairs, from, to)), 0)
}
