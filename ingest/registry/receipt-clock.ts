/** The clock of receipt: that of the host, unless it jumps away from that of NATS. */

/** A step of the host's clock up to this is followed at once, in milliseconds: time servers make smaller ones. */
const LARGEST_STEP_MS = 60_000

export interface ReceiptClockSources {
  /** Epoch milliseconds of the host; may jump. */
  now: () => number
  /** Monotonic milliseconds. */
  monotonic: () => number
}

/**
 * Tells the time of receipt.
 *
 * ```
 *   host    12:00:00   12:00:01   (two days on) 12:00:02   ...
 *   NATS    12:00:00   12:00:01   12:00:02
 *   receipt 12:00:00   12:00:01   12:00:02
 * ```
 *
 * The time of a sent event is corrected by what its batch says of its sending. A batch that is sent again across a jump
 * of the clock would be corrected by the jump, and be other events. So a jump counts only when it leads towards the
 * clock of NATS, or when that is not known. A host whose clock was wrong from the start is believed: NATS may be wrong.
 */
export class ReceiptClock {
  readonly #sources: ReceiptClockSources
  /** How far this clock is ahead of the monotonic one. */
  #aheadMs: number
  #natsAheadMs = Number.NaN
  #hasDiverged = false

  constructor (sources: ReceiptClockSources = { now: Date.now, monotonic: () => performance.now() }) {
    this.#sources = sources
    this.#aheadMs = sources.now() - sources.monotonic()
  }

  /** Whether the host's clock has jumped and is not followed. Compare it with NATS again, which may follow it. */
  get hasDiverged (): boolean {
    this.now()
    return this.#hasDiverged
  }

  /** Epoch milliseconds, whole. */
  now (): number {
    const { now, monotonic } = this.#sources
    const at = monotonic()
    const host = now()
    const jumpMs = host - at - this.#aheadMs
    this.#hasDiverged = Math.abs(jumpMs) > LARGEST_STEP_MS && !this.#leadsToNats(host - at)
    if (this.#hasDiverged) return Math.floor(at + this.#aheadMs)
    this.#aheadMs = host - at
    return host
  }

  /** @param aheadMs  How far the clock of NATS is ahead of the monotonic one, about. */
  compare (aheadMs: number): void {
    this.#natsAheadMs = aheadMs
  }

  #leadsToNats (hostAheadMs: number): boolean {
    const nats = this.#natsAheadMs
    return Number.isNaN(nats) || Math.abs(hostAheadMs - nats) < Math.abs(this.#aheadMs - nats)
  }
}
