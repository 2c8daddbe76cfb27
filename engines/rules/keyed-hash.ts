/** The hashes that rules store instead of values. */
import { hash } from 'node:crypto'
import { isExactNumber } from '../body/parse-json.ts'
import { storedValue } from '../json-schema/evaluation.ts'
import { propertyText } from '../operators/property-test.ts'

/** What rules hash with: a secret of the deployment, and the project, so that projects cannot be joined by hashes. */
export interface HashKey {
  secret: Uint8Array
  projectId: number
}

/** Digits of a hash: 96 bits of the value, and 32 by which the hash is known as one of this project. */
const VALUE_DIGITS = 24
const SEAL_DIGITS = 8

/**
 * Makes the keyed hash of values: equal values have equal hashes, and nobody without the secret can find the value. A
 * hash stays as it is, so that an event which comes once more, changed by hand, says the same of its person.
 */
export function createHashValue ({ secret, projectId }: HashKey): (value: unknown) => unknown {
  const hmac = createHmacSha256(secret)
  const digest = (text: string): string => hmac(`${projectId}:${text}`)
  const sealOf = (digits: string): string => digest(`hash:${digits}`).slice(0, SEAL_DIGITS)
  const isHash = (text: string): boolean => text.length === VALUE_DIGITS + SEAL_DIGITS && /^[\da-f]*$/.test(text) &&
    text.slice(VALUE_DIGITS) === sealOf(text.slice(0, VALUE_DIGITS))

  return function hashValue (value) {
    const stored = storedValue(value)
    // There is nothing to hide in them, and queries tell them apart.
    if (stored === null || stored === undefined || stored === '') return value
    // Of a long number the digits, which the table has all.
    const text = propertyText(isExactNumber(value) ? value : stored).toWellFormed()
    if (isHash(text)) return value
    const digits = digest(text).slice(0, VALUE_DIGITS)
    return digits + sealOf(digits)
  }
}

/** Bytes that SHA-256 works on at a time, and of what it makes. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32

/** Longer texts, which are rare, get memory of their own. */
const SHORT_TEXT_BYTES = 1024

/**
 * HMAC-SHA-256 (RFC 2104) in hexadecimal, by hashes without an object: that of `createHmac` costs as much again, and
 * has to be collected (docs/reference/benchmarks.md).
 */
export function createHmacSha256 (secret: Uint8Array): (text: string) => string {
  const key = Buffer.alloc(BLOCK_BYTES)
  key.set(secret.length > BLOCK_BYTES ? hash('sha256', secret, 'buffer') : secret)
  const innerKey = key.map((byte) => byte ^ 0x36)
  const short = Buffer.alloc(BLOCK_BYTES + SHORT_TEXT_BYTES)
  short.set(innerKey)
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES)
  outer.set(key.map((byte) => byte ^ 0x5c))

  return function hmacSha256 (text) {
    // No UTF-16 unit takes more than three bytes.
    const inner = text.length * 3 <= SHORT_TEXT_BYTES ? short : Buffer.concat([innerKey], BLOCK_BYTES + text.length * 3)
    const bytes = inner.write(text, BLOCK_BYTES)
    outer.write(hash('sha256', inner.subarray(0, BLOCK_BYTES + bytes), 'latin1'), BLOCK_BYTES, 'latin1')
    return hash('sha256', outer, 'hex')
  }
}
