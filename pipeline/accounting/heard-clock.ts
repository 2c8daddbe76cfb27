/** The clock of another machine, as its messages tell it. */

/** A clock that went back is believed after one to two of these, in milliseconds. */
const SPAN_MS = 30_000

/**
 * The clock of a server, as its messages tell it: each says when it was stored. One that comes late, as those that wait
 * for a new leader, makes the clock slow, so of the last 30 to 60 seconds the message that came quickest counts. All
 * times are milliseconds; `at` is of the own monotonic clock.
 */
export class HeardClock {
  /** How far the clock is ahead of the own one by the quickest message of the span before, and of this one. */
  #before = -Infinity
  #ahead = -Infinity
  #spanFrom = 0
  #lastAhead = 0

  hear (storedAt: number, at: number): void {
    this.#lastAhead = storedAt - at
    if (at - this.#spanFrom >= SPAN_MS) {
      this.#before = this.#ahead
      this.#ahead = -Infinity
      this.#spanFrom = at
    }
    this.#ahead = Math.max(this.#ahead, this.#lastAhead)
  }

  /** About now. */
  now (at: number): number {
    return at + Math.max(this.#before, this.#ahead, this.#lastAhead)
  }

  /** A moment that has certainly passed, also when the clock went back. */
  atLeast (at: number): number {
    return at + this.#lastAhead
  }
}
