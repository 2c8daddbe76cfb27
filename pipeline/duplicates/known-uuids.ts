import { FINGERPRINT_BYTES } from '../../schema/frame-message.ts'
import { FingerprintTable } from './fingerprint-table.ts'

/** Fingerprints of one generation: three quarters of 2^22 slots, 32 MB. */
const MAX_GENERATION = 3_145_728

/**
 * Remembers which events of a partition were stored, by fingerprint, for as long as its memory lasts.
 *
 * ```
 *   time  ---------------------------------------------------->
 *            old generation        |  young generation
 *            3.1 million           |  filling up
 *            ^ coveredSince
 * ```
 *
 * Looks go to both generations, additions to the young one. When it is full it becomes the old one, and the previous
 * old one is forgotten: at most 64 MB, and never less than the last three million events.
 *
 * `coveredSince` is in the time of the stream: an event that came into the stream later than that is remembered. So an
 * uuid that was made later than that, and is not remembered, was never stored, however far the partition is behind.
 */
export class KnownUuids {
  #young: FingerprintTable
  #old: FingerprintTable | null = null
  #youngSince: number
  #oldSince: number
  readonly #maxGeneration: number

  /** @param coveredSince  Everything that came later is added before the first question; epoch ms, 0 for everything. */
  constructor (coveredSince: number, maxGeneration = MAX_GENERATION) {
    this.#young = new FingerprintTable()
    this.#youngSince = coveredSince
    this.#oldSince = coveredSince
    this.#maxGeneration = maxGeneration
  }

  /** Epoch milliseconds; see above. */
  get coveredSince (): number {
    return this.#old === null ? this.#youngSince : this.#oldSince
  }

  get bytes (): number {
    return this.#young.bytes + (this.#old?.bytes ?? 0)
  }

  add (low: number, high: number): boolean {
    if (low === 0 && high === 0) return true
    if (this.#old?.has(low, high)) return false
    return this.#young.add(low, high)
  }

  /**
   * Adds the fingerprints at the start of a payload.
   *
   * @param storedAt  When the stream took the message, epoch milliseconds.
   * @returns the rows that were known before, mostly none.
   */
  addPayload (payload: Uint8Array, rows: number, storedAt: number): readonly number[] {
    if (this.#young.size + rows > this.#maxGeneration) this.#turnOver(storedAt)
    const view = new DataView(payload.buffer, payload.byteOffset, rows * FINGERPRINT_BYTES)
    let known: number[] | null = null
    for (let row = 0; row < rows; row++) {
      const at = row * FINGERPRINT_BYTES
      if (!this.add(view.getUint32(at, true), view.getUint32(at + 4, true))) (known ??= []).push(row)
    }
    return known ?? NONE
  }

  #turnOver (storedAt: number): void {
    const recycled = this.#old ?? new FingerprintTable()
    recycled.clear()
    this.#old = this.#young
    this.#oldSince = this.#youngSince
    this.#young = recycled
    this.#youngSince = storedAt
  }
}

const NONE: readonly number[] = []
