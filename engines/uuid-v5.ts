import { createHash } from 'node:crypto'

/**
 * The bytes of a uuid of version 5 (RFC 9562, 5.5): the same text gives the same uuid.
 *
 * @param namespace  16 bytes, which keep it apart from uuids of the same text for something else.
 */
export function createUuidV5 (namespace: Uint8Array, text: string): Buffer {
  const bytes = createHash('sha1').update(namespace).update(text).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes
}

/** The usual text of the 16 bytes of a uuid. */
export function textOfUuid (bytes: Buffer): string {
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
