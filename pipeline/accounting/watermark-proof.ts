/** Proves from positions how far everything received is stored. */

/** What EVENTS says of itself. */
export interface StreamPosition {
  /** Which life of the stream: sequences begin again when it is re-created. */
  life: string
  /** Sequence of the oldest unacknowledged message; one more than `last` without any. */
  first: number
  /** Of the newest message. */
  last: number
}

/** Claims that wait at most; beyond, every other one is given up, which costs precision and no truth. */
const MAX_CLAIMS = 1024

/**
 * The watermark of one reader of the stream.
 *
 * ```
 *   ingest: everything received before t is in the stream       (then)
 *   EVENTS: its last message is number 900                      (then)
 *   EVENTS: its first message is number 901 or later            => everything received before t is stored
 * ```
 *
 * EVENTS is a work queue: a message leaves it when the writer of its partition has acknowledged it, which it does when
 * each of its events is stored, found to be a duplicate, or dead-lettered.
 */
export class WatermarkProof {
  /** Moments, each with the position before which everything that was received earlier is in the stream. */
  #claims: { through: number, last: number }[] = []
  #life = ''
  #through: number | null = null

  /** Epoch milliseconds; null while nothing is proven. Never goes back. */
  get through (): number | null {
    return this.#through
  }

  /**
   * Everything received before this moment is in the stream, at or before its last position.
   *
   * @param position  Read after that was known.
   */
  claim (through: number, position: StreamPosition): void {
    this.#enter(position.life)
    const newest = this.#claims.at(-1)
    if (through <= Math.max(newest?.through ?? 0, this.#through ?? 0)) return
    // Nothing came in between: the later moment holds as soon as the earlier one does.
    if (newest?.last === position.last) newest.through = through
    else this.#claims.push({ through, last: position.last })
    if (this.#claims.length > MAX_CLAIMS) this.#claims = this.#claims.filter((_, index) => index % 2 === 1)
  }

  /** The stream is seen at a position: what was claimed before its first message is proven. */
  see (position: StreamPosition): void {
    this.#enter(position.life)
    let proven = 0
    for (const { through, last } of this.#claims) {
      if (last >= position.first) break
      this.#through = Math.max(this.#through ?? 0, through)
      proven++
    }
    this.#claims.splice(0, proven)
  }

  /** Positions of another life of the stream say nothing about this one. */
  #enter (life: string): void {
    if (life === this.#life) return
    this.#life = life
    this.#claims = []
  }
}
