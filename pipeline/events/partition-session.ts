import { MillraceError } from '../../engines/errors.ts'
import { pause } from '../../platform/intervals.ts'
import { ROW_LAYOUT } from '../../schema/wire/event-row.ts'
import { countBatch } from '../accounting/count-batch.ts'
import { LedgerWriter } from '../accounting/ledger-writer.ts'
import type { PartitionLease } from '../stream/partition-lease.ts'
import { batchRangeToken, type BatchRange, type InsertTarget } from '../stream/partition-records.ts'
import { chooseBatch, listProcesses } from './batch-range.ts'
import { deadLetterRows } from './dead-letter-refused-rows.ts'
import type { DuplicateFilter } from './duplicates/duplicate-filter.ts'
import { INSERT_SETTINGS_VERSION, type InsertError } from './insert/insert-frames.ts'
import { insertMessages } from './insert/insert-messages.ts'
import { isAnotherTarget, waitForInsert } from './insert/insert-target.ts'
import type { SessionDeps } from './session-deps.ts'
import { countStored, PartitionProgress } from './partition-progress.ts'
import type { PartitionMessage, EventsReader } from './events-reader.ts'
import { RefusedRowSearch, type RefusedPiece } from './refused-row-search.ts'

/** Longest wait of an idle partition for messages, in milliseconds. */
const IDLE_MS = 3000

/** Takes messages, chooses batch ranges, inserts and acknowledges them, one batch range at a time. */
export class PartitionSession {
  readonly #deps: SessionDeps
  readonly #reader: EventsReader
  readonly #lease: PartitionLease
  readonly #filter: DuplicateFilter
  readonly #target: InsertTarget
  readonly #progress: PartitionProgress
  readonly #search: RefusedRowSearch
  readonly #ledger: LedgerWriter
  #lastBatchAt = -Infinity

  constructor (
    deps: SessionDeps,
    parts: { lease: PartitionLease, reader: EventsReader, filter: DuplicateFilter, target: InsertTarget }
  ) {
    this.#deps = deps
    this.#lease = parts.lease
    this.#reader = parts.reader
    this.#filter = parts.filter
    this.#target = parts.target
    this.#progress = new PartitionProgress(parts.lease, parts.reader)
    this.#search = new RefusedRowSearch({ ...deps, probeTable: deps.store.probeTable })
    this.#ledger = new LedgerWriter(this.#progress, deps.store.insertLedgerRows, deps.logger)
  }

  async run (): Promise<void> {
    const { stop, state } = this.#deps
    await this.#waitIfNewer(this.#lease.record.range?.layout)
    await this.#repeatRecordedRange()
    state.phase = 'running'
    while (!stop.aborted) {
      if (this.#reader.failure !== null) throw this.#reader.failure
      this.#skipStored()
      this.#ledger.closeEntries()
      const count = this.#countDue()
      if (count > 0) {
        await this.#waitIfNewer(this.#reader.buffer[0]!.layout)
        if (!stop.aborted) await this.#storeBatch(this.#reader.take(count))
      } else {
        await this.#progress.write()
        this.#ledger.writeSoon()
        state.oldestStoredAt = this.#reader.buffer[0]?.storedAt ?? 0
        await this.#reader.waitForMore(this.#msUntilDue(), stop)
      }
    }
    await this.#progress.write()
    await this.#ledger.writeLast()
  }

  /**
   * Older layouts only lack columns, which get their defaults. A newer one has columns that this process does not know:
   * ClickHouse would refuse its rows, and they would be dead-lettered for nothing. They wait for a newer process
   * instead.
   */
  async #waitIfNewer (layout = 0): Promise<void> {
    const { stop, state, logger } = this.#deps
    if (layout <= ROW_LAYOUT || stop.aborted) return
    const error = new MillraceError('MILLRACE_ROW_LAYOUT_TOO_NEW', `the partition has row layout ${layout}, and this process supports ` +
      `layouts up to ${ROW_LAYOUT}: stop it and start the newer version`, { action: 'stop', details: { layout } })
    logger.error({ err: error, partition: state.key }, 'a newer version wrote this partition, so this process stores nothing of it: stop it and start the newer version')
    state.fail(error)
    while (!stop.aborted) await pause(IDLE_MS, stop)
  }

  /** Inserts the batch range that the record names exactly as it was: the last owner may have inserted it or not. */
  async #repeatRecordedRange (): Promise<void> {
    const { range } = this.#lease.record
    if (range === null) return
    const { stop, logger, state } = this.#deps
    if (isAnotherTarget(range.target ?? this.#target, this.#target)) return await this.#leaveTarget(range)
    while (!await this.#hasAllUpTo(range.last)) {
      await this.#reader.waitForMore(1000, stop)
      if (this.#reader.failure !== null) throw this.#reader.failure
      if (stop.aborted) return
    }
    this.#skipStored()
    const count = this.#reader.buffer.findLastIndex((message) => message.sequence <= range.last) + 1
    if (count !== range.messages) {
      // Messages vanished from the stream. ClickHouse would not recognise the token with another number of blocks.
      logger.error({ partition: state.key, expected: range.messages, found: count }, 'the stream lost messages of the recorded batch range; the remaining rows are checked for duplicates before the insert')
      this.#progress.doubt(range)
      this.#progress.reopenLedger()
      return
    }
    const messages = this.#reader.take(count)
    logger.info({ partition: state.key, first: range.first, last: range.last }, 'repeating the recorded batch range')
    await this.#insertRange(messages, range, true)
  }

  /**
   * Shards were added or taken away since the batch range was inserted, or its tables are others (moved, restored):
   * under its token rows would count twice. They are looked up, once ClickHouse no longer works on that insert.
   */
  async #leaveTarget (range: BatchRange): Promise<void> {
    const { stop, logger, state, store } = this.#deps
    const token = this.#tokenOf(range)
    logger.warn({ partition: state.key, token }, 'shards or tables of events changed after the batch range was recorded; checking each row before inserting')
    await waitForInsert(token, store.isInserting, stop)
    if (!stop.aborted) this.#progress.leaveTarget(range)
  }

  async #hasAllUpTo (sequence: number): Promise<boolean> {
    if ((this.#reader.buffer.at(-1)?.sequence ?? 0) >= sequence) return true
    if (await this.#reader.readPending() > this.#reader.buffer.length) return false
    // In a cluster the consumer may be led by a server that does not have the last messages yet.
    return (this.#reader.buffer.at(-1)?.sequence ?? 0) >= sequence || !await this.#reader.isInStream(sequence)
  }

  #skipStored (): void {
    const sequence = this.#progress.skipStored()
    if (sequence !== null) {
      this.#deps.logger.error({ partition: this.#deps.state.key, sequence }, 'stream sequence went backwards (stream re-created or truncated); the record of the partition is reset')
    }
  }

  #countDue (): number {
    // What remains of a split message goes alone: in a batch range with others its acknowledged rows would be inserted
    // again.
    const { limits } = this.#search
    const search = this.#progress.doneRows > 0 ? { ...limits, messages: 1 } : limits
    const { count, full } = chooseBatch(this.#reader.buffer, this.#deps.limits, search)
    return full || this.#msUntilDue() <= 0 ? count : 0
  }

  /** After a pause the first message is inserted at once; in a steady flow batches follow at the given interval. */
  #msUntilDue (): number {
    if (this.#reader.buffer.length === 0) return IDLE_MS
    return this.#lastBatchAt + this.#deps.limits.maxAgeMs - performance.now()
  }

  async #storeBatch (messages: PartitionMessage[]): Promise<void> {
    this.#lastBatchAt = performance.now()
    this.#deps.state.oldestStoredAt = messages[0]!.storedAt
    const range = await this.#planRange(messages)
    if (range.layout === -1) {
      await this.#deadLetter(messages, range, { error: null })
      return
    }
    await this.#ledger.makeRoom(this.#deps.stop)
    this.#progress.setRange(range)
    await this.#progress.write()
    this.#ledger.writeSoon()
    await this.#insertRange(messages, range)
  }

  async #planRange (messages: readonly PartitionMessage[]): Promise<BatchRange> {
    const first = messages[0]!
    const { doneRows } = this.#progress
    const { rows } = this.#search.limits
    const isPiece = messages.length === 1 && (doneRows > 0 || rows < first.rows)
    return {
      first: first.sequence,
      last: messages.at(-1)!.sequence,
      messages: messages.length,
      ...(isPiece ? { rows: [doneRows, Math.min(doneRows + rows, first.rows)] } : {}),
      layout: first.layout,
      settings: INSERT_SETTINGS_VERSION,
      target: this.#target,
      receivedBy: listProcesses(messages),
      deduplicated: await this.#filter.decide(messages, { lookUpAll: this.#isDoubtful(first), doneRows })
    }
  }

  async #insertRange (messages: PartitionMessage[], range: BatchRange, isRepeated = false): Promise<void> {
    const startedAt = performance.now()
    const outcome = await insertMessages(this.#deps, this.#lease, { messages, range, token: this.#tokenOf(range) })
    if (outcome.kind === 'stopped') return
    if (outcome.kind === 'stored') return await this.#complete(messages, range, performance.now() - startedAt)
    // Its rows may be stored: under the tokens of other batch ranges they would be stored again.
    if (outcome.kind === 'refused' && (outcome.doubtful || isRepeated)) {
      this.#progress.doubt(range)
      for (const message of messages) delete message.deduplicated
    }
    await this.#searchRefused(messages, range, outcome.error)
  }

  /** Everything that follows when the rows of a batch range are stored. */
  async #complete (messages: PartitionMessage[], inserted: BatchRange, ms: number): Promise<void> {
    const doubtful = this.#progress.doubtful.map((each) => ({ range: each, token: this.#tokenOf(each) }))
    // What a doubtful insert stored is stored, and no duplicate.
    const deduplicated = await this.#filter.excludeOwnRows(messages, inserted, doubtful)
    const range = { ...inserted, deduplicated }
    await this.#deps.store.recordDuplicates(this.#deps.partition, messages, range)
    this.#filter.remember(messages, range)
    countStored(this.#deps, { messages, range, ms })
    this.#search.widen(messages.length)
    await this.#acknowledge(messages, range, { isDeadLettered: false })
  }

  /** It belongs to a batch range that is not repeated as it was: each of its rows is confirmed in ClickHouse. */
  #isDoubtful ({ sequence }: PartitionMessage): boolean {
    return this.#progress.doubtful.some(({ last }) => sequence <= last)
  }

  async #searchRefused (messages: PartitionMessage[], range: BatchRange, error: InsertError): Promise<void> {
    const found = await this.#search.narrow(messages, range, error)
    if (found !== null) return await this.#deadLetter(messages, range, { ...found, error })
    this.#progress.setRange(null)
    this.#reader.putBack(messages)
  }

  async #deadLetter (
    messages: PartitionMessage[], range: BatchRange, refused: RefusedPiece & { error: InsertError | null }
  ): Promise<void> {
    const taken = await deadLetterRows(this.#deps, { message: messages[0]!, token: this.#tokenOf(range), ...refused })
    if (!taken) return
    await this.#acknowledge(messages, range, { isDeadLettered: true })
    // Copies of an event that was not stored are no longer duplicates.
    for (const message of this.#reader.buffer) delete message.deduplicated
  }

  async #acknowledge (
    messages: PartitionMessage[], range: BatchRange, outcome: { isDeadLettered: boolean }
  ): Promise<void> {
    const counts = await countBatch(messages, range, outcome)
    // Not before: a refusal may mean that ClickHouse is failing, and the partition would be reported as healthy.
    this.#deps.state.phase = 'running'
    const remaining = this.#progress.acknowledge(messages, range, counts)
    if (remaining !== null) this.#reader.putBack([remaining])
    this.#search.advance(remaining === null && range.rows !== undefined)
  }

  #tokenOf (range: BatchRange): string {
    return batchRangeToken(this.#deps.partition, this.#progress.stream, range)
  }
}
