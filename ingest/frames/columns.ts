const FIRST_BYTES = 1024

/** Longest UTF-8 form of one UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3
const MAX_VARINT_BYTES = 5

/** Bytes that a column keeps for the next frame: twice what an ordinary one has, which doubles until it fits. */
const MAX_KEPT_BYTES = 2_097_152

/**
 * The bytes of one column, growing as rows are appended. Keeps its memory when it is reset, unless one large row has
 * made it much larger than others need it: there is one for each column of each partition.
 */
export class ColumnBuffer {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #view = new DataView(this.#bytes.buffer)
  length = 0

  reset (): void {
    this.length = 0
    if (this.#bytes.length > MAX_KEPT_BYTES) this.#replace(Buffer.allocUnsafeSlow(FIRST_BYTES))
  }

  /** Bytes of memory, used or not. */
  get capacity (): number {
    return this.#bytes.length
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
    this.#replace(grown)
  }

  #replace (bytes: Buffer): void {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer)
  }

  writeUInt32 (value: number): void {
    this.reserve(4)
    this.#view.setUint32(this.length, value, true)
    this.length += 4
  }

  writeInt32 (value: number): void {
    this.reserve(4)
    this.#view.setInt32(this.length, value, true)
    this.length += 4
  }

  writeFloat64 (value: number): void {
    this.reserve(8)
    this.#view.setFloat64(this.length, value, true)
    this.length += 8
  }

  writeUInt8 (value: number): void {
    this.reserve(1)
    this.#view.setUint8(this.length, value)
    this.length += 1
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

/** Version of the dictionary serialisation that ClickHouse reads from the wire. */
const VERSION = 1

/** This block brings its own keys and needs no dictionary from before. */
const HAS_OWN_KEYS = 0x200
const NEEDS_NEW_DICTIONARY = 0x400

/**
 * A `LowCardinality(String)` column, dictionary-encoded as the rows come in:
 *
 * ```
 * u64 version | u64 flags and index width | u64 keys | key 0 (''), key 1, ... | u64 rows | index, index, ...
 * ```
 *
 * Index width: 0 for one byte, 1 for two, 2 for four.
 */
export class LowCardinalityColumn {
  #indexes = new Map<string, number>([['', 0]])
  #keys: string[] = ['']
  #rows: number[] = []

  /** @returns the bytes that it adds to the dictionary: 0 for a value that is in it. */
  append (value: string): number {
    // The empty string is by far the most common value of the optional columns.
    if (value === '') {
      this.#rows.push(0)
      return 0
    }
    const known = this.#indexes.get(value)
    if (known !== undefined) {
      this.#rows.push(known)
      return 0
    }
    const index = this.#keys.length
    this.#indexes.set(value, index)
    this.#keys.push(value)
    this.#rows.push(index)
    return Buffer.byteLength(value)
  }

  valueAt (row: number): string {
    return this.#keys[this.#rows[row] as number] as string
  }

  /** Whether every row is the empty string. */
  get isEmpty (): boolean {
    return this.#keys.length === 1
  }

  reset (): void {
    if (this.#keys.length > 1) {
      this.#indexes = new Map([['', 0]])
      this.#keys = ['']
    }
    this.#rows = []
  }

  writeTo (out: ColumnBuffer): void {
    const keys = this.#keys
    const rows = this.#rows
    const width = keys.length <= 0x100 ? 0 : keys.length <= 0x10000 ? 1 : 2
    out.writeInt64(VERSION)
    out.writeInt64(HAS_OWN_KEYS | NEEDS_NEW_DICTIONARY | width)
    out.writeInt64(keys.length)
    for (let key = 0; key < keys.length; key++) out.writeString(keys[key] as string)
    out.writeInt64(rows.length)

    const bytes = 1 << width
    out.reserve(rows.length * bytes)
    const view = out.view
    let at = out.length
    for (let row = 0; row < rows.length; row++, at += bytes) {
      if (width === 0) view.setUint8(at, rows[row] as number)
      else if (width === 1) view.setUint16(at, rows[row] as number, true)
      else view.setUint32(at, rows[row] as number, true)
    }
    out.length = at
  }
}
