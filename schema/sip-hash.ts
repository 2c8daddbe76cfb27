/**
 * SipHash-2-4 with 64 bits of result (Aumasson and Bernstein, 2012): a keyed hash. Without the key
 * nobody can make two inputs meet. The same as `sipHash64Keyed` of ClickHouse over a string.
 */

/** A key of 128 bits: its two little-endian 64-bit words, low half first. */
export type SipKey = readonly [k0Low: number, k0High: number, k1Low: number, k1High: number]

/** Reads a key from 16 bytes. */
export function readSipKey (bytes: Uint8Array): SipKey {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16)
  return [view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true), view.getUint32(12, true)]
}

/**
 * Bytes to be hashed, collected piece by piece, and room for the result. Reused from input to input: a hash a captured
 * event must not allocate.
 */
export class SipHasher {
  readonly #key: SipKey
  #bytes = new Uint8Array(256)
  #words = new Int32Array(this.#bytes.buffer)
  #length = 0
  /** Low and high half of the last result, as signed 32-bit integers. */
  low = 0
  high = 0

  constructor (key: SipKey) {
    this.#key = key
  }

  reset (): void {
    this.#length = 0
  }

  writeUInt32 (value: number): void {
    this.#reserve(4)
    const bytes = this.#bytes
    let at = this.#length
    bytes[at++] = value
    bytes[at++] = value >>> 8
    bytes[at++] = value >>> 16
    bytes[at++] = value >>> 24
    this.#length = at
  }

  writeBytes (source: Uint8Array, from = 0, to = source.length): void {
    this.#reserve(to - from)
    const bytes = this.#bytes
    let at = this.#length
    // A loop beats `set` with a subarray for the few bytes of an id.
    if (to - from > 64) bytes.set(source.subarray(from, to), at)
    else for (let i = from; i < to; i++) bytes[at++] = source[i]!
    this.#length += to - from
  }

  /** Hashes what was written since the last `reset`, into `low` and `high`. */
  hash (): void {
    const length = this.#length
    const blocks = length >>> 3
    this.#bytes.fill(0, length, blocks * 8 + 8)
    this.#bytes[blocks * 8 + 7] = length
    // 64-bit words as pairs of 32-bit halves: numbers of JavaScript are exact to 53 bits only.
    const [k0l, k0h, k1l, k1h] = this.#key
    let v0l = k0l ^ 0x70736575; let v0h = k0h ^ 0x736f6d65
    let v1l = k1l ^ 0x6e646f6d; let v1h = k1h ^ 0x646f7261
    let v2l = k0l ^ 0x6e657261; let v2h = k0h ^ 0x6c796765
    let v3l = k1l ^ 0x79746573; let v3h = k1h ^ 0x74656462
    const words = this.#words
    // The last step takes no input: it finishes with four rounds instead of two.
    for (let block = 0; block <= blocks + 1; block++) {
      const isInput = block <= blocks
      const low = isInput ? words[2 * block]! : 0
      const high = isInput ? words[2 * block + 1]! : 0
      v3l ^= low
      v3h ^= high
      if (!isInput) v2l ^= 0xff
      for (let round = isInput ? 2 : 4; round > 0; round--) {
        v0l = (v0l + v1l) | 0
        v0h = (v0h + v1h + ((v0l >>> 0) < (v1l >>> 0) ? 1 : 0)) | 0
        let carried = v1l
        v1l = ((v1l << 13) | (v1h >>> 19)) ^ v0l
        v1h = ((v1h << 13) | (carried >>> 19)) ^ v0h
        carried = v0l
        v0l = v0h
        v0h = carried
        v2l = (v2l + v3l) | 0
        v2h = (v2h + v3h + ((v2l >>> 0) < (v3l >>> 0) ? 1 : 0)) | 0
        carried = v3l
        v3l = ((v3l << 16) | (v3h >>> 16)) ^ v2l
        v3h = ((v3h << 16) | (carried >>> 16)) ^ v2h
        v0l = (v0l + v3l) | 0
        v0h = (v0h + v3h + ((v0l >>> 0) < (v3l >>> 0) ? 1 : 0)) | 0
        carried = v3l
        v3l = ((v3l << 21) | (v3h >>> 11)) ^ v0l
        v3h = ((v3h << 21) | (carried >>> 11)) ^ v0h
        v2l = (v2l + v1l) | 0
        v2h = (v2h + v1h + ((v2l >>> 0) < (v1l >>> 0) ? 1 : 0)) | 0
        carried = v1l
        v1l = ((v1l << 17) | (v1h >>> 15)) ^ v2l
        v1h = ((v1h << 17) | (carried >>> 15)) ^ v2h
        carried = v2l
        v2l = v2h
        v2h = carried
      }
      v0l ^= low
      v0h ^= high
    }
    this.low = v0l ^ v1l ^ v2l ^ v3l
    this.high = v0h ^ v1h ^ v2h ^ v3h
  }

  /** Room for `more` bytes and the padding behind them. */
  #reserve (more: number): void {
    const needed = this.#length + more + 16
    if (needed <= this.#bytes.length) return
    const grown = new Uint8Array(2 ** Math.ceil(Math.log2(needed)))
    grown.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = grown
    this.#words = new Int32Array(grown.buffer)
  }
}
