/** Reads and writes the bytes of Native blocks for those who copy most of them unread. */

/** Bytes of a number in the head of a dictionary or a map. */
export const WORD_BYTES = 8

/** Blocks one after the other, and a place in them. */
export class BlockReader {
  readonly bytes: Buffer
  readonly view: DataView
  at = 0

  constructor (bytes: Buffer) {
    this.bytes = bytes
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  varint (): number {
    const { bytes } = this
    let byte = bytes[this.at++]!
    let value = byte & 127
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = bytes[this.at++]!
      value += (byte & 127) * scale
    }
    return value
  }

  /** A 64-bit number. */
  word (): number {
    const value = this.view.getUint32(this.at, true) + this.view.getUint32(this.at + 4, true) * 0x1_0000_0000
    this.at += WORD_BYTES
    return value
  }

  /** A number of 1, 2 or 4 bytes. */
  number (width: number): number {
    const { at } = this
    this.at += width
    return width === 1 ? this.bytes[at]! : width === 2 ? this.view.getUint16(at, true) : this.view.getUint32(at, true)
  }

  /** A 64-bit number of things of which each takes a byte at least: more than there are bytes make no block. */
  count (): number {
    const value = this.word()
    if (value > this.bytes.length) throw new Error(`${value} values in ${this.bytes.length} bytes`)
    return value
  }

  skipStrings (count: number): void {
    for (let i = 0; i < count; i++) {
      const length = this.varint()
      this.at += length
    }
  }
}

/** The block that is written, of a length that is known before. */
export class BlockWriter {
  readonly bytes: Buffer
  readonly #view: DataView
  #at = 0

  constructor (length: number) {
    this.bytes = Buffer.allocUnsafeSlow(length)
    this.#view = new DataView(this.bytes.buffer)
  }

  get written (): Buffer {
    return this.bytes.subarray(0, this.#at)
  }

  varint (value: number): void {
    for (; value > 127; value = Math.floor(value / 128)) this.bytes[this.#at++] = (value & 127) | 128
    this.bytes[this.#at++] = value
  }

  word (value: number): void {
    this.number(value, 4)
    this.number(0, 4)
  }

  number (value: number, width: number): void {
    if (width === 1) this.bytes[this.#at] = value
    else if (width === 2) this.#view.setUint16(this.#at, value, true)
    else this.#view.setUint32(this.#at, value, true)
    this.#at += width
  }

  copy (from: Buffer, start: number, end: number): void {
    this.#at += from.copy(this.bytes, this.#at, start, end)
  }

  /** @param filling  Repeated as often as it takes; null: zeros. */
  fill (count: number, filling: Buffer | null): void {
    this.bytes.fill(filling ?? 0, this.#at, this.#at += count)
  }
}
