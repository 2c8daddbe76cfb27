import { startNextLife, type LaneHold } from '../../lanes/claim-lane.ts'
import { settledCount, type Cut, type LaneRecord } from '../../lanes/lane-record.ts'
import { type LaneMessage } from '../read/lane-message.ts'
import { type LaneReader } from '../read/lane-reader.ts'

/**
 * How far a lane is settled: in memory at once, in the lane's record with the next write, and only then towards the
 * stream, which forgets what is acknowledged.
 */
export class LaneProgress {
  readonly #hold: LaneHold
  readonly #reader: LaneReader
  /** The record as it will be written next. */
  #next: LaneRecord
  /** Settled messages that may be acknowledged once `#next` is written. */
  #settled: LaneMessage[] = []

  constructor (hold: LaneHold, reader: LaneReader) {
    this.#hold = hold
    this.#reader = reader
    this.#next = hold.record
  }

  /** Identity of the stream's numbers, for tokens. */
  get stream (): string {
    return this.#next.stream
  }

  /** Rows of the first message that are settled already. */
  get doneRows (): number {
    return this.#next.doneRows
  }

  /** The cut to be recorded with the next write. */
  setCut (cut: Cut | null): void {
    this.#next = { ...this.#next, cut }
  }

  /**
   * The rows of the cut are stored or set aside.
   *
   * @returns the message that goes on, when the cut was a piece of it.
   */
  settle (messages: readonly LaneMessage[], cut: Cut): LaneMessage | null {
    const last = messages.at(-1)!
    if (cut.rows !== undefined && cut.rows[1] < last.rows) {
      this.#next = { ...this.#next, doneRows: cut.rows[1], cut: null }
      return last
    }
    const { since, messages: before } = settledCount(this.#next)
    this.#next = {
      ...this.#next, done: last.sequence, doneAt: last.storedAt, doneRows: 0, cut: null,
      counted: { since, messages: before + messages.length, done: last.sequence }
    }
    this.#settled.push(...messages)
    return null
  }

  /** Makes what was settled durable, then lets the stream forget it. */
  async write (): Promise<void> {
    if (this.#next === this.#hold.record) return
    await this.#hold.write(this.#next)
    this.#reader.acknowledge(this.#settled)
    this.#settled = []
  }

  /**
   * Acknowledges what an earlier session settled but did not acknowledge any more.
   *
   * @returns the sequence at which the stream was found to count again, or null.
   */
  skipSettled (): number | null {
    let count = 0
    let repeated: number | null = null
    for (const { sequence, storedAt } of this.#reader.buffer) {
      if (sequence > this.#next.done) break
      // Younger than the last settled one, but with a lower number: the stream lost its end and counts again.
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
