import { type ColumnBuffer } from './column-buffer.ts'

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

  append (value: string): void {
    // The empty string is by far the most common value of the optional columns.
    if (value === '') {
      this.#rows.push(0)
      return
    }
    let index = this.#indexes.get(value)
    if (index === undefined) {
      index = this.#keys.length
      this.#indexes.set(value, index)
      this.#keys.push(value)
    }
    this.#rows.push(index)
  }

  /** Whether every row is the empty text. */
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
