/** What a large body shows before it is inflated and parsed. Only hints: clients may lie, or put the key elsewhere. */
import zlib from 'node:zlib'
import { isGzip } from './decompress.ts'

/** Inflates to a megabyte at most. */
const PEEKED_WIRE_BYTES = 1024
const PEEKED_CHARACTERS = 4096

const KEY = /"(?:api_key|token|writeKey)"\s*:\s*"([^"\\]{1,200})"/

/** The key at the beginning of the body or, when it is not compressed, at its end; empty without one. */
export function peekKey (chunks: readonly Buffer[]): string {
  const [first = Buffer.alloc(0)] = chunks
  try {
    const isCompressed = isGzip(first)
    const head = isCompressed
      ? zlib.gunzipSync(first.subarray(0, PEEKED_WIRE_BYTES), { finishFlush: zlib.constants.Z_SYNC_FLUSH })
      : first
    const tail = isCompressed ? '' : chunks.at(-1)?.toString('latin1').slice(-PEEKED_CHARACTERS) ?? ''
    return KEY.exec(head.toString('latin1', 0, PEEKED_CHARACTERS) + tail)?.[1] ?? ''
  } catch {
    return ''
  }
}

/** Bytes after decompression: gzip ends with them, and what begins like JSON has none; else as many as there may be. */
export function peekInflatedBytes (chunks: readonly Buffer[], wireBytes: number, maxBytes: number): number {
  const [first = Buffer.alloc(0)] = chunks
  const last = chunks.at(-1) ?? first
  if (isGzip(first)) return last.length < 4 ? maxBytes : Math.min(last.readUInt32LE(last.length - 4), maxBytes)
  return /^\s*[{[]/.test(first.toString('latin1', 0, 16)) ? wireBytes : maxBytes
}
