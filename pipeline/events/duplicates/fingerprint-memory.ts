import { FINGERPRINT_BYTES } from '../../../schema/wire/frame-message.ts'

/** Fingerprints of one generation: three quarters of 2^22 slots, 50 MB. */
const MAX_GENERATION = 3_145_728

/** What the memory says about an event. */
export const NOT_REMEMBERED = 0
export const REMEMBERED = 1
/** The uuid is remembered from an event whose check is not known. */
export const UNCERTAIN = 2

/**
 * Remembers which events of a partition are stored, by fingerprint (`schema/wire/frame-message.ts`), for as long as its
 * memory lasts. Only events that ClickHouse confirmed are added, so remembered events are stored.
 *
 * ```
 *   time  ---------------------------------------------------->
 *            old generation        |  young generation
 *            3.1 million           |  filling up
 *            ^ coveredSince
 * ```
 *
 * Looks go to both generations, additions to the young one. When it is full it becomes the old one, and the previous
 * old one is forgotten: at most 100 MB, and never less than the last three million events.
 *
 * `coveredSince` is in the time of the stream: an event that came into the stream later than that is remembered. So an
 * uuid that was made later than that, and is not remembered, was never stored, however far the partition is behind.
 */
export class FingerprintMemory {
  #young: FingerprintTable
  #old: FingerprintTable | null = null
  #youngSince: number
  #oldSince: number
  #keyId: string
  /** Events whose check is not known, of each generation. */
  #uncertain = { young: 0, old: 0 }
  /** When each generation began, by `performance.now()`. */
  #begun = { young: performance.now(), old: -Infinity }
  readonly #maxGeneration: number
  #loadedAt = { monotonicMs: performance.now(), epochMs: Date.now() }

  /**
   * @param coveredSince   All later events are added before the first lookup; epoch ms, 0 for all events.
   * @param options.keyId  Under which key the checks are made; empty to adopt that of the first message.
   * @param options.slots  Of the young generation at the start.
   */
  constructor (coveredSince: number, options: { keyId?: string, maxGeneration?: number, slots?: number } = {}) {
    this.#young = new FingerprintTable(options.slots)
    this.#youngSince = coveredSince
    this.#oldSince = coveredSince
    this.#keyId = options.keyId ?? ''
    this.#maxGeneration = options.maxGeneration ?? MAX_GENERATION
  }

  /**
   * A memory that begins with the young generation of this one as its old generation, in the same room: nothing may be
   * added to this one afterwards.
   *
   * @param youngSince  All later events are added to the new memory; epoch ms.
   */
  fork (youngSince: number): FingerprintMemory {
    const memory = new FingerprintMemory(youngSince, { keyId: this.#keyId, maxGeneration: this.#maxGeneration })
    memory.#old = this.#young
    memory.#oldSince = this.#youngSince
    memory.#begun.old = this.#begun.young
    memory.#uncertain.old = this.#uncertain.young
    memory.#loadedAt = this.#loadedAt
    return memory
  }

  /** Epoch milliseconds; see above. */
  get coveredSince (): number {
    return this.#old === null ? this.#youngSince : this.#oldSince
  }

  /** Every event that was confirmed since then, by `performance.now()`, is remembered. */
  get completeSince (): number {
    return this.#old === null ? this.#begun.young : this.#begun.old
  }

  /** What other partitions stored since then is not remembered. */
  get loadedAt (): Readonly<{ monotonicMs: number, epochMs: number }> {
    return this.#loadedAt
  }

  /** Whether fingerprints with checks under this key can be compared with those remembered. */
  understands (keyId: string): boolean {
    if (this.#keyId === '') this.#keyId = keyId
    return keyId !== '' && keyId === this.#keyId
  }

  /** Not for a check of zero: who does not know the check of an event has to ask ClickHouse. */
  recall (uuidHash: number, checkLow: number, checkHigh: number): number {
    if (this.#has(uuidHash, checkLow, checkHigh)) return REMEMBERED
    const mayBeUncertain = this.#uncertain.young + this.#uncertain.old > 0
    return mayBeUncertain && this.#has(uuidHash, 0, 0) ? UNCERTAIN : NOT_REMEMBERED
  }

  /** Adds a stored event; a check of zero when it is not known. */
  add (uuidHash: number, checkLow: number, checkHigh: number): void {
    if (checkLow === 0 && checkHigh === 0) this.#uncertain.young++
    this.#young.add(uuidHash, checkLow, checkHigh)
  }

  /**
   * Adds rows of a message.
   *
   * @param rows     Those that are stored, from `rows[0]` to `rows[1]` (exclusive).
   * @param message  `storedAt`: when the stream took the message, epoch milliseconds.
   */
  addRows (message: { payload: Uint8Array, keyId: string, storedAt: number }, rows: readonly [number, number]): void {
    const [from, to] = rows
    if (this.#young.size + to - from > this.#maxGeneration) this.#turnOver(message.storedAt)
    const isUnderstood = this.understands(message.keyId)
    const view = fingerprintView(message.payload)
    for (let row = from; row < to; row++) {
      const at = row * FINGERPRINT_BYTES
      const uuidHash = view.getUint32(at, true)
      if (isUnderstood) this.add(uuidHash, view.getUint32(at + 4, true), view.getUint32(at + 8, true))
      else this.add(uuidHash, 0, 0)
    }
  }

  #has (uuidHash: number, checkLow: number, checkHigh: number): boolean {
    return this.#young.has(uuidHash, checkLow, checkHigh) || (this.#old?.has(uuidHash, checkLow, checkHigh) ?? false)
  }

  #turnOver (storedAt: number): void {
    this.#old = this.#young
    this.#oldSince = this.#youngSince
    this.#young = new FingerprintTable(slotsFor(this.#maxGeneration))
    this.#youngSince = storedAt
    this.#begun = { old: this.#begun.young, young: performance.now() }
    this.#uncertain = { old: this.#uncertain.young, young: 0 }
  }
}

export function fingerprintView (payload: Uint8Array): DataView {
  return new DataView(payload.buffer, payload.byteOffset, payload.byteLength)
}

/** Entries per slot at most: beyond, runs of occupied slots get long and a look costs several cache lines. */
const MAX_LOAD = 0.75

const SMALLEST_SLOTS = 4096

/** Words of a slot. */
const WORDS = 3

/** Slots of a table that holds `entries` without growing. */
export function slotsFor (entries: number): number {
  return Math.max(SMALLEST_SLOTS, 2 ** Math.ceil(Math.log2((entries + 1) / MAX_LOAD)))
}

/**
 * A set of fingerprints in one flat array, twelve bytes a slot.
 *
 * ```
 * slots  | uuid hash, check | 0 0 0 | uuid hash, check | uuid hash, check | 0 0 0 | ...      0 0 0 = free
 *                                     ^ home             ^ the next free slot of an entry whose home was taken
 * ```
 *
 * A taken home sends an entry to the next free slot (linear probing), so a look ends at the first free one. Nothing is
 * ever removed. The array doubles when it is three quarters full.
 *
 * The home comes from the uuid hash, the high word of the check and the low one without its last six bits. So events
 * that differ by a day share a home, and one that was sent with many dates cannot make long runs: a home has 64 of
 * them at most. Nobody who sends events can choose homes, because checks are keyed.
 */
export class FingerprintTable {
  #slots: Uint32Array
  #mask: number
  #size = 0

  /** @param slots  Initial slots, a power of two. */
  constructor (slots = SMALLEST_SLOTS) {
    this.#slots = new Uint32Array(WORDS * slots)
    this.#mask = slots - 1
  }

  get size (): number {
    return this.#size
  }

  /** Whether the event is there, on the same day or the one before or after. */
  has (uuidHash: number, checkLow: number, checkHigh: number): boolean {
    if (this.#isInHome(uuidHash, checkLow, checkHigh, checkLow >>> 6)) return true
    const day = checkLow & 63
    if (day !== 0 && day !== 63) return false
    return this.#isInHome(uuidHash, checkLow, checkHigh, ((checkLow + (day === 0 ? -1 : 1)) >>> 0) >>> 6)
  }

  /** Adds exactly this fingerprint; all zero, which no event has, is not added. */
  add (uuidHash: number, checkLow: number, checkHigh: number): void {
    if (uuidHash === 0 && checkLow === 0 && checkHigh === 0) return
    const slots = this.#slots
    let slot = this.#home(uuidHash, checkHigh, checkLow >>> 6)
    for (;;) {
      const at = WORDS * slot
      if (slots[at] === 0 && slots[at + 1] === 0 && slots[at + 2] === 0) {
        slots[at] = uuidHash
        slots[at + 1] = checkLow
        slots[at + 2] = checkHigh
        break
      }
      if (slots[at] === uuidHash && slots[at + 1] === checkLow && slots[at + 2] === checkHigh) return
      slot = (slot + 1) & this.#mask
    }
    this.#size++
    if (this.#size > (this.#mask + 1) * MAX_LOAD) this.#grow()
  }

  #home (uuidHash: number, checkHigh: number, days: number): number {
    return (uuidHash ^ checkHigh ^ Math.imul(days, 0x9e3779b1)) & this.#mask
  }

  #isInHome (uuidHash: number, checkLow: number, checkHigh: number, days: number): boolean {
    const slots = this.#slots
    let slot = this.#home(uuidHash, checkHigh, days)
    for (;;) {
      const at = WORDS * slot
      const there = slots[at]
      if (there === 0 && slots[at + 1] === 0 && slots[at + 2] === 0) return false
      if (there === uuidHash && slots[at + 2] === checkHigh && ((slots[at + 1]! - checkLow + 1) >>> 0) <= 2) return true
      slot = (slot + 1) & this.#mask
    }
  }

  #grow (): void {
    const old = this.#slots
    this.#slots = new Uint32Array(2 * old.length)
    this.#mask = 2 * this.#mask + 1
    this.#size = 0
    for (let at = 0; at < old.length; at += WORDS) {
      if (old[at] !== 0 || old[at + 1] !== 0 || old[at + 2] !== 0) this.add(old[at]!, old[at + 1]!, old[at + 2]!)
    }
  }
}
