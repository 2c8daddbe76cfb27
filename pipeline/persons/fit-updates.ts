/**
 * Takes updates so that the persons and groups that they name fit into memory: anybody with the public key can store
 * large persons, and then name thousands of them in one batch.
 */
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { type FoundRows, type OwnerRow, rowsOf } from './load-persons.ts'

/** Bytes of large properties that are in memory at a time. */
const MAX_LARGE_BYTES = 16_777_216

/**
 * Takes updates, from the first on, as long as what they name fits into memory; there is always one.
 *
 * @returns them, and the large rows among what they name.
 */
export function takeFitting (
  updates: readonly PersonsUpdate[], found: FoundRows, maxBytes = MAX_LARGE_BYTES
): { updates: readonly PersonsUpdate[], large: readonly OwnerRow[] } {
  const large = new Set<OwnerRow>()
  let bytes = 0
  for (const [index, update] of updates.entries()) {
    const before = large.size
    bytes += addLarge(large, update, found)
    const needsMore = large.size > before && bytes > maxBytes
    if (needsMore && index > 0) return { updates: updates.slice(0, index), large: [...large].slice(0, before) }
  }
  return { updates, large: [...large] }
}

/** Adds the large rows that an update names. Returns the bytes of the new ones. */
function addLarge (large: Set<OwnerRow>, update: PersonsUpdate, found: FoundRows): number {
  let bytes = 0
  for (const row of rowsOf(update, found)) {
    if (row === undefined || row.properties !== null || large.has(row)) continue
    large.add(row)
    bytes += row.bytes
  }
  return bytes
}
