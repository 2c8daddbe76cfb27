/**
 * Format Native as servers write it for a client that names its revision of the protocol (`client_protocol_version`):
 * clickhouse-go over HTTP and the official Grafana plugin. The engine writes it for nobody in particular. It writes the
 * same columns in its format `Buffers`, each behind its size; what belongs before them is written here.
 */

export interface Column {
  name: string
  type: string
}

/** DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION: since then a byte tells whether a column is written specially. */
const CUSTOM_SERIALIZATION = 54_454

/** Field 1 (is it what overflowed?): no. Field 2 (number of its bucket): -1, none. End of the fields. */
const BLOCK_HEAD = Buffer.from([1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0])

/** Numbers of columns and rows before a block of `Buffers`, 8 bytes each; the size before a column of it. */
const COUNTS_BYTES = 16
const SIZE_BYTES = 8

/** Makes a function that turns a result in format `Buffers`, piece by piece, into Native. */
export function createNativeWriter (columns: readonly Column[], revision: number): (chunk: Uint8Array) => Uint8Array[] {
  const plain = revision >= CUSTOM_SERIALIZATION ? [0] : []
  const heads = columns.map(({ name, type }) => Buffer.concat([writeText(name), writeText(type), Buffer.from(plain)]))
  let waiting: Buffer = Buffer.alloc(0)
  /** Columns of this block whose heads are written; bytes that are left of the last of these. */
  let begun = heads.length
  let bytes = 0

  return function write (chunk) {
    const out: Uint8Array[] = []
    let data = Buffer.concat([waiting, chunk])
    for (;;) {
      const contents = data.subarray(0, bytes)
      out.push(contents)
      data = data.subarray(contents.length)
      bytes -= contents.length
      const isWhole = begun === heads.length
      const needed = isWhole ? COUNTS_BYTES : SIZE_BYTES
      if (bytes > 0 || data.length < needed) break
      const number = Number(data.readBigUInt64LE(needed - 8))
      if (isWhole) {
        out.push(BLOCK_HEAD, writeVarUInt(heads.length), writeVarUInt(number))
        begun = 0
      } else {
        out.push(heads[begun++]!)
        bytes = number
      }
      data = data.subarray(needed)
    }
    waiting = data
    return out
  }
}

function writeText (text: string): Buffer {
  return Buffer.concat([writeVarUInt(Buffer.byteLength(text)), Buffer.from(text)])
}

function writeVarUInt (value: number): Buffer {
  if (value < 128) return Buffer.from([value])
  return Buffer.concat([Buffer.from([value % 128 | 128]), writeVarUInt(Math.floor(value / 128))])
}
