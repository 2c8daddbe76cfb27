import { createHash, randomFillSync } from 'node:crypto'
import { stringifyJson } from './body/stringify-json.ts'

/** A uuid as four 32-bit words, first characters first: what the encoder needs, without a string in between. */
export interface UuidWords {
  a: number
  b: number
  c: number
  d: number
}

/** Values of hex digits by character code; -1 for everything else. */
const HEX = new Int8Array(256).fill(-1)
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  HEX[digit.charCodeAt(0)] = value
  HEX[digit.toUpperCase().charCodeAt(0)] = value
}

/**
 * Reads a uuid: with hyphens, without, in braces or as an urn.
 *
 * @returns null for invalid text, and for the nil uuid, which clients send in place of a uuid.
 */
export function parseUuid (text: string): UuidWords | null {
  const bare = text.length === 36 ? text : unwrap(text)
  const step = bare.length === 36 ? 1 : 0
  if (bare.length !== 36 && bare.length !== 32) return null
  if (step === 1 && !hasHyphens(bare)) return null

  const a = readHex8(bare, 0)
  const b = readHex4(bare, 8 + step) * 0x10000 + readHex4(bare, 12 + 2 * step)
  const c = readHex4(bare, 16 + 3 * step) * 0x10000 + readHex4(bare, 20 + 4 * step)
  const d = readHex8(bare, 24 + 4 * step)
  // An invalid digit makes its word NaN.
  const sum = a + b + c + d
  return sum > 0 ? { a, b, c, d } : null
}

/** Time inside a version 7 uuid in epoch milliseconds; null for other versions. */
export function timeOfUuid ({ a, b, c }: UuidWords): number | null {
  const isVersion7 = ((b >>> 12) & 0xf) === 7 && (c >>> 30) === 2
  return isVersion7 ? a * 0x10000 + (b >>> 16) : null
}

/** The canonical text of a uuid. */
export function formatUuid ({ a, b, c, d }: UuidWords): string {
  const hex = toHex8(a) + toHex8(b) + toHex8(c) + toHex8(d)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const random = new Uint32Array(1024)
let randomUsed = random.length

/** Makes a version 7 uuid: time first, then 74 random bits. */
export function createUuidV7 (nowMs: number): UuidWords {
  if (randomUsed + 3 > random.length) {
    randomFillSync(random)
    randomUsed = 0
  }
  const r0 = random[randomUsed++] as number
  const r1 = random[randomUsed++] as number
  const r2 = random[randomUsed++] as number
  return {
    a: Math.floor(nowMs / 0x10000),
    b: ((nowMs % 0x10000) * 0x10000) + (0x7000 | (r0 & 0x0fff)),
    c: (0x80000000 | (r1 >>> 2)) >>> 0,
    d: r2
  }
}

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

/** Any fixed uuid would do: it keeps our uuids of version 5 apart from those of others. */
const NAMESPACE = Buffer.from('5d0c7f0e8f3a5b1c9a6e2f4b7c1d3e5f', 'hex')

/**
 * A uuid for an event with an invalid one, from project and text, so that the same text gives the same uuid when the
 * SDK tries again.
 */
export function uuidOfText (projectId: number, text: string): UuidWords {
  const bytes = createUuidV5(NAMESPACE, `${projectId}:${text}`)
  return { a: bytes.readUInt32BE(0), b: bytes.readUInt32BE(4), c: bytes.readUInt32BE(8), d: bytes.readUInt32BE(12) }
}

/** The uuid of an event; null when it has none. */
export function readUuid (value: unknown, projectId: number): UuidWords | null {
  if (value === undefined || value === null || value === '') return null
  const text = typeof value === 'string' ? value : stringifyJson(value)
  const uuid = parseUuid(text)
  if (uuid !== null) return uuid
  // The nil uuid is what clients without a uuid send: as identity it would make all their events one.
  return /^[{]?[0-]+[}]?$/.test(text) ? null : uuidOfText(projectId, text)
}

function unwrap (text: string): string {
  if (text.length < 32 || text.length > 60) return text
  const bare = text.trim().replace(/^urn:uuid:/i, '')
  return bare.startsWith('{') && bare.endsWith('}') ? bare.slice(1, -1) : bare
}

function hasHyphens (text: string): boolean {
  return text.charCodeAt(8) === 45 && text.charCodeAt(13) === 45 && text.charCodeAt(18) === 45 &&
    text.charCodeAt(23) === 45
}

/** Four hex digits as a number; NaN for invalid digits. */
function readHex4 (text: string, at: number): number {
  const value = (hex(text, at) << 12) | (hex(text, at + 1) << 8) | (hex(text, at + 2) << 4) | hex(text, at + 3)
  return value < 0 ? NaN : value
}

function readHex8 (text: string, at: number): number {
  return readHex4(text, at) * 0x10000 + readHex4(text, at + 4)
}

/** -1 sets the sign bit of whatever it is combined with, which is how one check finds a bad digit among four. */
function hex (text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code < 256 ? HEX[code] as number : -1
}

function toHex8 (word: number): string {
  return word.toString(16).padStart(8, '0')
}
