import zlib from 'node:zlib'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'

/**
 * A message in a spool segment:
 *
 * ```
 * +-------+--------+-------+----------------------------------------------+
 * | magic | length | crc32 | body: length of meta | meta (JSON) | payload |
 * | 4     | u32    | u32   |       u32            |             |         |
 * +-------+--------+-------+----------------------------------------------+
 * ```
 *
 * The checksum covers the body. Numbers are little-endian. The magic lets a reader find the next record behind a
 * damaged one.
 */
export const MAGIC = Buffer.from('MRs1')
const HEADER_BYTES = 12

/** No message is larger (JetStream's own limit is half of it), so a larger length is damage. */
const MAX_BODY_BYTES = 67_108_864

/** The pieces of a record, to be written one after the other without copying the payload. */
export function encodeSpoolRecord ({ subject, id, headers, payload }: OutgoingMessage): Buffer[] {
  const meta = Buffer.from(JSON.stringify({ subject, id, headers }))
  const head = Buffer.allocUnsafe(HEADER_BYTES + 4)
  MAGIC.copy(head)
  head.writeUInt32LE(4 + meta.length + payload.length, 4)
  head.writeUInt32LE(meta.length, HEADER_BYTES)
  let crc = zlib.crc32(head.subarray(HEADER_BYTES))
  crc = zlib.crc32(meta, crc)
  crc = zlib.crc32(payload, crc)
  head.writeUInt32LE(crc, 8)
  return [head, meta, Buffer.from(payload.buffer, payload.byteOffset, payload.length)]
}

export type DecodedRecord =
  | { kind: 'message', message: OutgoingMessage, end: number }
  /** The bytes end before the record does: read more, or it is torn. */
  | { kind: 'incomplete', neededBytes: number }
  /** These bytes are no record; `next` is where one might begin, -1 for nowhere in these bytes. */
  | { kind: 'damaged', next: number }

/** Reads the record at `start`. The message shares memory with `bytes`. */
export function decodeSpoolRecord (bytes: Buffer, start: number): DecodedRecord {
  if (bytes.length - start < HEADER_BYTES) {
    const isPrefix = bytes.subarray(start, start + MAGIC.length).equals(MAGIC.subarray(0, bytes.length - start))
    return isPrefix || bytes.length - start >= MAGIC.length
      ? { kind: 'incomplete', neededBytes: HEADER_BYTES }
      : damagedAt(bytes, start)
  }
  const length = bytes.readUInt32LE(start + 4)
  const isHeader = bytes.compare(MAGIC, 0, MAGIC.length, start, start + MAGIC.length) === 0
  if (!isHeader || length < 4 || length > MAX_BODY_BYTES) return damagedAt(bytes, start)
  const bodyStart = start + HEADER_BYTES
  const end = bodyStart + length
  if (end > bytes.length) return { kind: 'incomplete', neededBytes: HEADER_BYTES + length }
  const body = bytes.subarray(bodyStart, end)
  const message = zlib.crc32(body) === bytes.readUInt32LE(start + 8) ? readBody(body) : null
  return message === null ? damagedAt(bytes, start) : { kind: 'message', message, end }
}

function damagedAt (bytes: Buffer, start: number): DecodedRecord {
  return { kind: 'damaged', next: bytes.indexOf(MAGIC, start + 1) }
}

function readBody (body: Buffer): OutgoingMessage | null {
  const metaEnd = 4 + body.readUInt32LE(0)
  if (metaEnd > body.length) return null
  const meta = JSON.parse(body.toString('utf8', 4, metaEnd)) as Omit<OutgoingMessage, 'payload'>
  return { ...meta, payload: body.subarray(metaEnd) }
}
