import { type PersonsUpdate } from '../../../schema/persons-update.ts'

/** The two unsigned words of a fingerprint; `low` is never zero. */
export interface Fingerprint {
  high: number
  low: number
}

/**
 * 64 bits of what makes an update the same one when it comes again: project, kind, subject and the uuid of its event.
 * One event may have several updates, and clients have been seen to give one uuid to different events.
 *
 * With a million remembered ones, a new update is taken for a known one once in 10^13 times.
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
