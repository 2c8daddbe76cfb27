/**
 * Format Native as servers write it for a client that names its revision of the protocol (`client_protocol_version`):
 * clickhouse-go over HTTP and the official Grafana plugin. The engine writes it for nobody in particular. The columns
 * are the same; a head before each block, and a byte before the data of each column, are added on the way.
 */
import type { BodyTransform } from './compressed-blocks.ts'
import { type ColumnType, readColumnType } from './column-type.ts'

/** DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION: since then a byte tells whether a column is written specially. */
const CUSTOM_SERIALIZATION = 54_454

/** Field 1 (is it what overflowed?): no. Field 2 (number of its bucket): -1, none. End of the fields. */
const BLOCK_HEAD = Buffer.from([1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0])
const PLAIN = Buffer.from([0])

/** Bits of a dictionary column's head. */
const HAS_KEYS = 1n << 9n
const INDEX_WIDTH = 0xffn

/** Waits for more bytes. */
type Walk<T> = Generator<void, T, void>

export class NativeBlocks implements BodyTransform {
  #revision: number
  #walk: Walk<void>
  #data: Buffer = Buffer.alloc(0)
  #at = 0
  /** What lies between the two has been walked over, and is not yet passed on. */
  #passedOn = 0
  #out: Uint8Array[] = []

  constructor (revision: number) {
    this.#revision = revision
    this.#walk = this.#walkBlocks()
    this.#walk.next()
  }

  /** @throws {QueryError} 48 for a column of a type that cannot be walked over. */
  write (chunk: Uint8Array): Uint8Array[] {
    const rest = this.#data.subarray(this.#at)
    this.#data = rest.length === 0
      ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
      : Buffer.concat([rest, chunk])
    this.#at = this.#passedOn = 0
    this.#walk.next()
    this.#passOn()
    return this.#out.splice(0)
  }

  end (): Uint8Array[] {
    return this.#data.length > this.#at ? [this.#data.subarray(this.#at)] : []
  }

  * #walkBlocks (): Walk<void> {
    for (;;) {
      yield * this.#need(1)
      this.#insert(BLOCK_HEAD)
      const columns = yield * this.#readVarUInt()
      const rows = yield * this.#readVarUInt()
      for (let i = 0; i < columns; i++) {
        yield * this.#skip(yield * this.#readVarUInt())
        const type = readColumnType(yield * this.#readString())
        if (this.#revision >= CUSTOM_SERIALIZATION) this.#insert(PLAIN)
        if (rows === 0) continue
        yield * this.#skip(prefixBytes(type))
        yield * this.#skipColumn(type, rows)
      }
    }
  }

  * #skipColumn (type: ColumnType, rows: number): Walk<void> {
    if (rows === 0) return
    if (type.kind === 'fixed') {
      yield * this.#skip(type.bytes * rows)
    } else if (type.kind === 'string' || type.kind === 'json') {
      for (let i = 0; i < rows; i++) yield * this.#skip(yield * this.#readVarUInt())
    } else if (type.kind === 'nullable') {
      yield * this.#skip(rows)
      yield * this.#skipColumn(type.of, rows)
    } else if (type.kind === 'array') {
      // Where each row ends; the last one is how many elements there are.
      yield * this.#skip((rows - 1) * 8)
      yield * this.#skipColumn(type.of, Number(yield * this.#readUInt64()))
    } else if (type.kind === 'tuple') {
      for (const element of type.of) yield * this.#skipColumn(element, rows)
    } else {
      yield * this.#skipDictionary(type.of, rows)
    }
  }

  * #skipDictionary (keys: ColumnType, rows: number): Walk<void> {
    for (let left = rows; left > 0;) {
      const head = yield * this.#readUInt64()
      if ((head & HAS_KEYS) !== 0n) yield * this.#skipColumn(keys, Number(yield * this.#readUInt64()))
      const here = Number(yield * this.#readUInt64())
      yield * this.#skip(here * 2 ** Number(head & INDEX_WIDTH))
      left -= here
    }
  }

  * #need (bytes: number): Walk<void> {
    while (this.#data.length - this.#at < bytes) yield
  }

  * #skip (bytes: number): Walk<void> {
    let left = bytes
    for (;;) {
      const here = Math.min(left, this.#data.length - this.#at)
      this.#at += here
      left -= here
      if (left === 0) return
      yield
    }
  }

  * #readVarUInt (): Walk<number> {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      if (this.#at === this.#data.length) yield * this.#need(1)
      const byte = this.#data[this.#at++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }

  * #readUInt64 (): Walk<bigint> {
    yield * this.#need(8)
    this.#at += 8
    return this.#data.readBigUInt64LE(this.#at - 8)
  }

  * #readString (): Walk<string> {
    const bytes = yield * this.#readVarUInt()
    yield * this.#need(bytes)
    this.#at += bytes
    return this.#data.toString('utf8', this.#at - bytes, this.#at)
  }

  #insert (bytes: Buffer): void {
    this.#passOn()
    this.#out.push(bytes)
  }

  #passOn (): void {
    if (this.#at > this.#passedOn) this.#out.push(this.#data.subarray(this.#passedOn, this.#at))
    this.#passedOn = this.#at
  }
}

/** Versions of parts of a column, which stand before all of its data. */
function prefixBytes (type: ColumnType): number {
  if (type.kind === 'lowCardinality' || type.kind === 'json') return 8
  if (type.kind === 'tuple') return type.of.reduce((bytes, element) => bytes + prefixBytes(element), 0)
  return type.kind === 'nullable' || type.kind === 'array' ? prefixBytes(type.of) : 0
}
