/** The memory of a partition: fingerprints of the events that were stored last. */
import { FINGERPRINT_BYTES } from '../../../schema/frame-message.ts'

/** Fingerprints of one generation: three quarters of 2^22 slots, 32 MB. */
const MAX_GENERATION = 3_145_728

/** Entries per slot at most: beyond, runs of occupied slots get long and a look costs several cache lines. */
const MAX_LOAD = 0.75

const SMALLEST_SLOTS = 4096
const NONE: readonly number[] = []

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

/**
 * A set of 64-bit fingerprints in one flat array, eight bytes a slot.
 *
 * ```
 * slots  | low high | 0 0 | low high | low high | 0 0 | ...      0 0 = free
 *                             ^ home     ^ the next free slot of an entry whose home was taken
 * ```
 *
 * The home of a fingerprint is given by its high word; a taken home sends it to the next free slot (linear probing),
 * so a look ends at the first free one. Nothing is ever removed. The array doubles when it is three quarters full.
 */
export class FingerprintTable {
  #slots: Uint32Array
  #mask: number
  #size = 0

  /** @param slots  A power of two: start with so many instead of growing there. */
  constructor (slots = SMALLEST_SLOTS) {
    this.#slots = new Uint32Array(2 * slots)
    this.#mask = slots - 1
  }

  get size (): number {
    return this.#size
  }

  get bytes (): number {
    return this.#slots.byteLength
  }

  /** Not for both words 0, which mark a free slot. */
  has (low: number, high: number): boolean {
    const at = this.#find(low, high)
    return this.#slots[at] !== 0 || this.#slots[at + 1] !== 0
  }

  /** @returns false when it was there already. */
  add (low: number, high: number): boolean {
    const at = this.#find(low, high)
    const slots = this.#slots
    if (slots[at] !== 0 || slots[at + 1] !== 0) return false
    slots[at] = low
    slots[at + 1] = high
    this.#size++
    if (this.#size > (this.#mask + 1) * MAX_LOAD) this.#grow()
    return true
  }

  clear (): void {
    this.#slots.fill(0)
    this.#size = 0
  }

  /** Where the fingerprint is, or the free slot where it belongs. */
  #find (low: number, high: number): number {
    const slots = this.#slots
    let slot = high & this.#mask
    for (;;) {
      const at = 2 * slot
      const there = slots[at]!
      if (there === low && slots[at + 1] === high) return at
      if (there === 0 && slots[at + 1] === 0) return at
      slot = (slot + 1) & this.#mask
    }
  }

  #grow (): void {
    const old = this.#slots
    this.#slots = new Uint32Array(2 * old.length)
    this.#mask = 2 * this.#mask + 1
    for (let at = 0; at < old.length; at += 2) {
      const low = old[at]!
      const high = old[at + 1]!
      if (low === 0 && high === 0) continue
      const free = this.#find(low, high)
      this.#slots[free] = low
      this.#slots[free + 1] = high
    }
  }
}
