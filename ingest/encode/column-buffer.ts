const FIRST_BYTES = 1024

/** Longest UTF-8 form of one UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3
const MAX_VARINT_BYTES = 5

/** The bytes of one column, growing as rows are appended. Keeps its memory when it is reset. */
export class ColumnBuffer {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #view = new DataView(this.#bytes.buffer)
  length = 0

  reset (): void {
    this.length = 0
  }

  /** The written bytes, valid until the next write. */
  get bytes (): Buffer {
    return this.#bytes.subarray(0, this.length)
  }

  get view (): DataView {
    return this.#view
  }

  /** Makes room for `more` bytes; afterwards they can be written without a check. */
  reserve (more: number): void {
    const needed = this.length + more
    if (needed <= this.#bytes.length) return
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2))
    this.#bytes.copy(grown, 0, 0, this.length)
    this.#bytes = grown
    this.#view = new DataView(grown.buffer)
  }

  writeUInt32 (value: number): void {
    this.reserve(4)
    this.#view.setUint32(this.length, value, true)
    this.length += 4
  }

  /** A signed 64-bit integer within the exact range of a number. */
  writeInt64 (value: number): void {
    this.reserve(8)
    const high = Math.floor(value / 0x1_0000_0000)
    this.#view.setUint32(this.length, value - high * 0x1_0000_0000, true)
    this.#view.setInt32(this.length + 4, high, true)
    this.length += 8
  }

  writeVarint (value: number): void {
    this.reserve(MAX_VARINT_BYTES)
    this.length = putVarint(this.#bytes, this.length, value)
  }

  /** A varint length and the UTF-8 bytes; lone surrogates become U+FFFD. */
  writeString (text: string): void {
    const units = text.length
    this.reserve(units * MAX_BYTES_PER_UNIT + MAX_VARINT_BYTES)
    // Most text is ASCII: the length field is laid out for that, and the text moved when it turns out longer.
    const guessed = varintBytes(units)
    const start = this.length
    const written = units === 0 ? 0 : this.#bytes.write(text, start + guessed, 'utf8')
    const actual = varintBytes(written)
    if (actual !== guessed) this.#bytes.copyWithin(start + actual, start + guessed, start + guessed + written)
    putVarint(this.#bytes, start, written)
    this.length = start + actual + written
  }

  writeBytes (bytes: Uint8Array): void {
    this.reserve(bytes.length)
    this.#bytes.set(bytes, this.length)
    this.length += bytes.length
  }
}

function varintBytes (value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5
}

function putVarint (bytes: Uint8Array, at: number, value: number): number {
  while (value >= 0x80) {
    bytes[at++] = (value & 0x7f) | 0x80
    value = Math.floor(value / 0x80)
  }
  bytes[at++] = value
  return at
}
