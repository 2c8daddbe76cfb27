/** The columns of blocks that become one block: each collects what it is block by block, and is written as a whole. */
import type { EventColumn } from '../../../schema/wire/event-row.ts'
import { DICTIONARY_FLAGS, DICTIONARY_VERSION, FIXED_WIDTHS, INDEX_WIDTHS } from '../../../schema/wire/native-block.ts'
import { countRows, type RowRange } from '../row-ranges.ts'
import { type BlockReader, type BlockWriter, WORD_BYTES } from './block-bytes.ts'

/** One column of the joined block. */
export interface JoinedColumn {
  /** Rows so far; 0 while no block brought the column. */
  rows: number
  /** Takes the kept rows of the column of one block; the reader stands behind it afterwards. */
  read: (reader: BlockReader, rows: number, kept: readonly RowRange[]) => void
  /** Adds rows with the default of the column: a block leaves columns out that are their default in all its rows. */
  fill: (rows: number) => void
  /** Bytes that the column takes at most. */
  maxBytes: () => number
  write: (writer: BlockWriter, source: Buffer) => void
}

export function createJoinedColumn ({ type, default: absent }: EventColumn): JoinedColumn {
  switch (type) {
    case 'LowCardinality(String)': return new DictionaryColumn()
    case 'Map(String, String)': return new MapColumn()
    case 'Float64': return new PlainColumn(FIXED_WIDTHS[type], doubleBytes(absent ?? 0))
    default: return new PlainColumn(FIXED_WIDTHS[type])
  }
}

function doubleBytes (value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

/** Ranges of the source; a negative start stands for a number of padding bytes. */
class Ranges {
  readonly #filling: Buffer | null
  readonly #ends: number[] = []
  bytes = 0

  /** @param filling  What stands where nothing was brought, again and again; null: zeros. */
  constructor (filling: Buffer | null = null) {
    this.#filling = filling
  }

  add (start: number, end: number): void {
    this.#ends.push(start, end)
    this.bytes += end - start
  }

  /** Adds the kept ones of the next `count` strings. */
  addStrings (reader: BlockReader, count: number, kept: readonly RowRange[]): void {
    let at = 0
    for (const [from, to] of kept) {
      reader.skipStrings(from - at)
      const start = reader.at
      reader.skipStrings(to - from)
      this.add(start, reader.at)
      at = to
    }
    reader.skipStrings(count - at)
  }

  addFilling (count: number): void {
    this.#ends.push(-count, 0)
    this.bytes += count
  }

  write (writer: BlockWriter, source: Buffer): void {
    const ends = this.#ends
    for (let i = 0; i < ends.length; i += 2) {
      const start = ends[i]!
      if (start < 0) writer.fill(-start, this.#filling)
      else writer.copy(source, start, ends[i + 1]!)
    }
  }
}

/** Values of a fixed width, or strings with their lengths: either way what follows each other may be put together. */
class PlainColumn implements JoinedColumn {
  rows = 0
  readonly #width: number | undefined
  readonly #ranges: Ranges

  /** @param filling  The default of a row, of a fixed width; left out: zeros. */
  constructor (width: number | undefined, filling?: Buffer) {
    this.#width = width
    this.#ranges = new Ranges(filling)
  }

  read (reader: BlockReader, rows: number, kept: readonly RowRange[]): void {
    const width = this.#width
    if (width === undefined) {
      this.#ranges.addStrings(reader, rows, kept)
    } else {
      for (const [from, to] of kept) this.#ranges.add(reader.at + from * width, reader.at + to * width)
      reader.at += rows * width
    }
    this.rows += countRows(kept)
  }

  fill (rows: number): void {
    // An empty string is its length, one byte.
    this.#ranges.addFilling(rows * (this.#width ?? 1))
    this.rows += rows
  }

  maxBytes (): number {
    return this.#ranges.bytes
  }

  write (writer: BlockWriter, source: Buffer): void {
    this.#ranges.write(writer, source)
  }
}

/** Dictionaries become one, with the keys of all rows; the indexes are translated. */
class DictionaryColumn implements JoinedColumn {
  readonly #indexes = new Map<string, number>([['', 0]])
  readonly #keys = new Ranges()
  readonly #rows: number[] = []

  constructor () {
    // The first key of a dictionary is the default of the type, by convention of the format.
    this.#keys.addFilling(1)
  }

  get rows (): number {
    return this.#rows.length
  }

  read (reader: BlockReader, rows: number, kept: readonly RowRange[]): void {
    if (reader.word() !== Number(DICTIONARY_VERSION)) throw new Error('unexpected dictionary version')
    const flags = reader.word()
    const width = INDEX_WIDTHS[flags & 0xff]
    if (width === undefined || width > 4) throw new Error('dictionary index of unknown width')
    const places = this.#readKeys(reader, reader.count())
    if (reader.word() !== rows) throw new Error('dictionary row count mismatch')
    const begin = reader.at
    for (const [from, to] of kept) {
      reader.at = begin + from * width
      for (let row = from; row < to; row++) {
        const place = places[reader.number(width)]
        if (place === undefined) throw new Error('dictionary index beyond the keys')
        this.#rows.push(place)
      }
    }
    reader.at = begin + rows * width
  }

  fill (rows: number): void {
    for (let row = 0; row < rows; row++) this.#rows.push(0)
  }

  maxBytes (): number {
    return 4 * WORD_BYTES + this.#keys.bytes + this.#rows.length * 4
  }

  write (writer: BlockWriter, source: Buffer): void {
    const keys = this.#indexes.size
    const code = keys <= 0x100 ? 0 : keys <= 0x10000 ? 1 : 2
    const width = INDEX_WIDTHS[code]
    writer.word(Number(DICTIONARY_VERSION))
    writer.word(Number(DICTIONARY_FLAGS) | code)
    writer.word(keys)
    this.#keys.write(writer, source)
    writer.word(this.#rows.length)
    for (const index of this.#rows) writer.number(index, width)
  }

  /** @returns the place in the joined dictionary of each key. */
  #readKeys (reader: BlockReader, count: number): number[] {
    const places: number[] = []
    for (let i = 0; i < count; i++) {
      const start = reader.at
      const length = reader.varint()
      // Bytes as they are: two keys are the same when their bytes are.
      const key = reader.bytes.toString('latin1', reader.at, reader.at += length)
      let place = this.#indexes.get(key)
      if (place === undefined) {
        place = this.#indexes.size
        this.#indexes.set(key, place)
        this.#keys.add(start, reader.at)
      }
      places.push(place)
    }
    return places
  }
}

/** The ends of the rows count on from block to block; then all keys, then all values. */
class MapColumn implements JoinedColumn {
  readonly #ends: number[] = []
  readonly #keys = new Ranges()
  readonly #values = new Ranges()
  #total = 0

  get rows (): number {
    return this.#ends.length
  }

  read (reader: BlockReader, rows: number, kept: readonly RowRange[]): void {
    const ends: number[] = []
    for (let row = 0; row < rows; row++) ends.push(reader.count())
    const entries: RowRange[] = []
    for (const [from, to] of kept) {
      const first = ends[from - 1] ?? 0
      for (let row = from; row < to; row++) this.#ends.push(this.#total + ends[row]! - first)
      entries.push([first, ends[to - 1]!])
      this.#total = this.#ends.at(-1)!
    }
    for (const ranges of [this.#keys, this.#values]) ranges.addStrings(reader, ends.at(-1)!, entries)
  }

  fill (rows: number): void {
    for (let row = 0; row < rows; row++) this.#ends.push(this.#total)
  }

  maxBytes (): number {
    return this.#ends.length * WORD_BYTES + this.#keys.bytes + this.#values.bytes
  }

  write (writer: BlockWriter, source: Buffer): void {
    for (const end of this.#ends) writer.word(end)
    this.#keys.write(writer, source)
    this.#values.write(writer, source)
  }
}
