import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'

/** The two unsigned words of a fingerprint; `low` is never zero. */
export interface Fingerprint {
  high: number
  low: number
}

/** How long fingerprints stay in Postgres, in seconds. posthog-js retries for up to half an hour. */
export const REMEMBERED_SECONDS = 3600

const FINGERPRINT_BYTES = 8

/**
 * A 64-bit hash of what identifies an update when it is sent again: project, kind, subject and the uuid of its event.
 * The uuid alone is not enough: one event may have several updates, and some clients give one uuid to different events.
 *
 * Among a million remembered updates, a new one is taken for a known one with a probability of 10^-13.
 */
export function fingerprintUpdate (update: PersonsUpdate): Fingerprint {
  const text = `${update.projectId}:${update.kind}:${update.uuid}:${subjectOf(update)}`
  let high = 0x9e3779b9
  let low = 0x85ebca6b
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    high = Math.imul(high ^ unit, 0x01000193)
    low = Math.imul(low ^ unit, 0x5bd1e995)
    low ^= low >>> 15
  }
  high = avalanche(high ^ (low >>> 7))
  low = avalanche(low)
  return { high: high >>> 0, low: low === 0 ? 1 : low >>> 0 }
}

function subjectOf (update: PersonsUpdate): string {
  if (update.kind === 'group') return `${update.groupType}:${update.groupKey}`
  return update.kind === 'groupType' ? update.groupType : update.distinctId
}

/** The finalizer of murmur3, which spreads each bit over all of them. */
function avalanche (x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return x ^ (x >>> 16)
}

/** Encodes fingerprints for the table `persons_recent_updates`: two little-endian 32-bit words each. */
export function encodeFingerprints (fingerprints: readonly Fingerprint[]): Buffer {
  const bytes = Buffer.allocUnsafe(fingerprints.length * FINGERPRINT_BYTES)
  for (const [i, { high, low }] of fingerprints.entries()) {
    bytes.writeUInt32LE(high, i * FINGERPRINT_BYTES)
    bytes.writeUInt32LE(low, i * FINGERPRINT_BYTES + 4)
  }
  return bytes
}

/** Decodes what `encodeFingerprints` wrote. */
export function decodeFingerprints (bytes: Buffer): Fingerprint[] {
  return Array.from({ length: Math.floor(bytes.length / FINGERPRINT_BYTES) }, (_, i) =>
    ({ high: bytes.readUInt32LE(i * FINGERPRINT_BYTES), low: bytes.readUInt32LE(i * FINGERPRINT_BYTES + 4) }))
}
