const FIRST_SLOTS = 1024

/**
 * A growing set of 64-bit fingerprints: open addressing in one typed array, because half a million entries of a
 * JavaScript Set would cost ten times the memory and visit the garbage collector.
 *
 * ```
 *   words:  | high 0 | low 0 | high 1 | low 1 | ...      a slot is two words; both zero: free
 * ```
 */
export class FingerprintSet {
  size = 0
  #slots = FIRST_SLOTS
  #words = new Uint32Array(FIRST_SLOTS * 2)

  has (high: number, low: number): boolean {
    return this.#words[this.#find(high, low) + 1] !== 0
  }

  add (high: number, low: number): void {
    const at = this.#find(high, low)
    if (this.#words[at + 1] !== 0) return
    this.#words[at] = high
    this.#words[at + 1] = low
    this.size++
    if (this.size * 2 > this.#slots) this.#grow()
  }

  /** Position of the fingerprint, or of the free slot where it belongs. `low` is never zero, see `fingerprint`. */
  #find (high: number, low: number): number {
    let slot = low & (this.#slots - 1)
    for (;;) {
      const at = slot * 2
      const found = this.#words[at + 1]
      if (found === 0 || (found === low && this.#words[at] === high)) return at
      slot = (slot + 1) & (this.#slots - 1)
    }
  }

  #grow (): void {
    const old = this.#words
    this.#slots *= 2
    this.#words = new Uint32Array(this.#slots * 2)
    for (let at = 0; at < old.length; at += 2) {
      const low = old[at + 1] as number
      if (low === 0) continue
      const to = this.#find(old[at] as number, low)
      this.#words[to] = old[at] as number
      this.#words[to + 1] = low
    }
  }
}
