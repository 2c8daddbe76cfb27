import { type Fingerprint } from './fingerprint-update.ts'

const FINGERPRINT_BYTES = 8

/** How long fingerprints stay in Postgres, in seconds. posthog-js tries again for up to half an hour. */
export const REMEMBERED_SECONDS = 3600

/** Fingerprints as `persons_recent_updates` holds them. */
export function encodeFingerprints (fingerprints: readonly Fingerprint[]): Buffer {
  const bytes = Buffer.allocUnsafe(fingerprints.length * FINGERPRINT_BYTES)
  for (const [i, { high, low }] of fingerprints.entries()) {
    bytes.writeUInt32LE(high, i * FINGERPRINT_BYTES)
    bytes.writeUInt32LE(low, i * FINGERPRINT_BYTES + 4)
  }
  return bytes
}

export function decodeFingerprints (bytes: Buffer): Fingerprint[] {
  const fingerprints: Fingerprint[] = []
  for (let at = 0; at + FINGERPRINT_BYTES <= bytes.length; at += FINGERPRINT_BYTES) {
    fingerprints.push({ high: bytes.readUInt32LE(at), low: bytes.readUInt32LE(at + 4) })
  }
  return fingerprints
}
