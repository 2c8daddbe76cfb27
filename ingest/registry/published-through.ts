/** Time of receipt up to which everything is in the stream: the receipt clock and the requests in flight. */

/** A set-back clock that is further behind than this, in milliseconds, is followed: what it said before was wrong. */
const LARGEST_STEP_BACK_MS = 86_400_000

/** Length of the spans that count requests in flight, ms: the precision of the result. */
const SPAN_MS = 50

/** What was received in one span of time and is not in the stream yet. */
export interface InFlight {
  /** Nothing of it was received earlier: epoch milliseconds. */
  startedAt: number
  count: number
}

/**
 * Gives each request its time of receipt, and knows what of it is still in flight.
 *
 * ```
 *   startedAt   t1        t2       t3 (now taking)
 *   in flight    0         2        7
 *                          ^ everything received before t2 is in the stream, or in the spool
 * ```
 *
 * Requests in flight are counted by spans of time, and a span begins with an arrival: a request costs the hot path one
 * addition, no request is remembered, and without requests nothing is done.
 */
export class PublishedThrough {
  readonly #now: () => number
  readonly #isSpoolEmpty: () => boolean
  #spans: InFlight[] = []
  #taking: InFlight
  /** No event is received before: a moment that was announced as complete. */
  #floor = 0
  #announced = 0

  /**
   * @param now           Epoch milliseconds; may step backwards.
   * @param isSpoolEmpty  False: something that was received waits on the disk.
   */
  constructor (now: () => number, isSpoolEmpty: () => boolean) {
    this.#now = now
    this.#isSpoolEmpty = isSpoolEmpty
    this.#taking = { startedAt: now(), count: 0 }
    this.#spans.push(this.#taking)
  }

  /** Time of receipt of what arrives now. Never before a moment that was announced, even when the clock is set back. */
  receivedAt (): number {
    const now = this.#now()
    return now >= this.#floor || this.#floor - now > LARGEST_STEP_BACK_MS ? now : this.#floor
  }

  /**
   * Something was received in this turn of the event loop. `end` must follow when it is durable or refused.
   *
   * @param receivedAt  Its time of receipt; what joins it later must be noted by `alsoReceived`.
   */
  begin (receivedAt: number): InFlight {
    if (receivedAt - this.#taking.startedAt >= SPAN_MS) this.#beginSpan(receivedAt)
    const taking = this.#taking
    taking.count++
    alsoReceived(taking, receivedAt)
    return taking
  }

  end (inFlight: InFlight): void {
    inFlight.count--
  }

  /** Requests and messages in flight. */
  get inFlight (): number {
    return this.#spans.reduce((sum, { count }) => sum + count, 0)
  }

  /** The last moment that `announce` returned. */
  get announced (): number {
    return this.#announced
  }

  /** Raises the moment before which nothing is received any more. */
  raiseFloor (at: number): void {
    this.#floor = Math.max(this.#floor, at)
  }

  /**
   * The moment before which everything received is in the stream. It stays where it is while something waits in the
   * spool, which holds nothing that was received earlier.
   *
   * @param latest  Not after this moment, epoch milliseconds: the clock of NATS, so that a clock of a host which is
   *   ahead does not oblige it to stay ahead when it is set right.
   */
  announce (latest: number): number {
    if (this.#isSpoolEmpty()) {
      const waiting = this.#spans.filter(({ count }) => count > 0).map(({ startedAt }) => startedAt)
      const through = Math.min(...waiting, this.receivedAt(), latest)
      this.#announced = Math.max(this.#announced, Math.floor(through))
    }
    this.raiseFloor(this.#announced)
    return this.#announced
  }

  /** Continues where an earlier process of the same folder stopped: its events may still be in the spool. */
  continueFrom (announced: number): void {
    this.#announced = Math.max(this.#announced, announced)
    this.raiseFloor(this.#announced)
  }

  /** Separates earlier arrivals from later ones. */
  #beginSpan (startedAt: number): void {
    this.#spans = this.#spans.filter(({ count }) => count > 0)
    this.#taking = { startedAt, count: 0 }
    this.#spans.push(this.#taking)
  }
}

/** Adds to something in flight. Received earlier only if the clock was set back. */
export function alsoReceived (inFlight: InFlight, receivedAt: number): void {
  if (receivedAt < inFlight.startedAt) inFlight.startedAt = receivedAt
}
