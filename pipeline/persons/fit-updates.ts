/**
 * Divides updates so that the persons and groups that they name fit into memory: anybody with the public key can store
 * large persons, and then name thousands of them in one batch.
 */
import { type PersonsUpdate, withoutProperties } from '../../schema/wire/persons-update.ts'
import { foldUpdates } from './fold-updates.ts'
import { type FoundRows, groupName, type OwnerRow, personName, rowsOf } from './load-persons.ts'
import { PersonsState, type PersonState } from './persons-state.ts'

/** Bytes of large properties that are in memory at a time. */
const MAX_LARGE_BYTES = 16_777_216

/** Updates that can be applied at a time, and the large rows among what they name. */
export interface FittingUpdates {
  updates: readonly PersonsUpdate[]
  large: readonly OwnerRow[]
}

/** Takes updates, from the first on, as long as what they name fits into memory; there is always one. */
export function takeFitting (
  updates: readonly PersonsUpdate[], found: FoundRows, maxBytes = MAX_LARGE_BYTES
): FittingUpdates {
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

/** Adds what is large of the rows that an update names. Returns the bytes of what is new. */
function addLarge (large: Set<OwnerRow>, update: PersonsUpdate, found: FoundRows): number {
  let bytes = 0
  for (const row of rowsOf(update, found)) {
    if (row === undefined || row.properties !== null || large.has(row)) continue
    large.add(row)
    bytes += row.bytes
  }
  return bytes
}

/** The updates of one person in the end, or of one group. */
interface Portion {
  updates: { update: PersonsUpdate, index: number }[]
  large: Set<OwnerRow>
  bytes: number
}

/**
 * Divides updates into parts of which each fits into memory, where one person alone does not need more. What becomes
 * one person is in one part, with all its updates, in their order: so each person is read and written once, however
 * its updates and those of others alternate. The parts can be applied in any order.
 *
 * The indexes of new group types go by the order of all updates: they must be stored before.
 */
export function divideUpdates (
  updates: readonly PersonsUpdate[], found: FoundRows, maxBytes = MAX_LARGE_BYTES
): PersonsUpdate[][] {
  const ownerOf = createOwnerOf(updates, found)
  const portions = new Map<unknown, Portion>()
  for (const [index, update] of updates.entries()) {
    const owner = ownerOf(update)
    const portion = portions.get(owner) ?? { updates: [], large: new Set(), bytes: 0 }
    portions.set(owner, portion)
    portion.updates.push({ update, index })
    portion.bytes += addLarge(portion.large, update, found)
  }
  const parts: Portion['updates'][] = []
  let left = 0
  // Those that need nothing first, so that they do not end up in parts of their own.
  for (const portion of [...portions.values()].sort((a, b) => Number(a.bytes > 0) - Number(b.bytes > 0))) {
    if (parts.length === 0 || portion.bytes > left) {
      parts.push([])
      left = maxBytes
    }
    left -= portion.bytes
    for (const each of portion.updates) parts.at(-1)!.push(each)
  }
  return parts.map((part) => part.sort((a, b) => a.index - b.index).map(({ update }) => update))
}

/**
 * Returns what tells the updates of one person or group from those of others: the same for all distinct ids that are of
 * one person in the end.
 */
function createOwnerOf (updates: readonly PersonsUpdate[], found: FoundRows): (update: PersonsUpdate) => unknown {
  const state = foldIdentities(updates, found)
  return (update) => {
    if (update.kind === 'groupType') return 'group types'
    if (update.kind === 'group') return groupName(update.projectId, update.groupType, update.groupKey)
    return state.findPerson(update.projectId, update.distinctId)
  }
}

/** Who is one person after the updates: that depends on no properties. */
function foldIdentities (updates: readonly PersonsUpdate[], { persons }: FoundRows): PersonsState {
  const state = new PersonsState()
  for (const { id, projectId, uuid, isIdentified, distinctIds } of new Set(persons.values())) {
    const person: PersonState = {
      id, projectId, uuid, isIdentified, createdAt: 0, properties: {}, sizeBound: 2, isMeasured: false,
      leading: new Set(), changed: false, mergedInto: null, absorbed: []
    }
    state.addPerson(person)
    for (const distinctId of distinctIds) state.loadPerson(distinctId, person)
  }
  const named = updates.filter((update) => update.kind === 'person' || update.kind === 'merge')
  const { merges: outcomes } = foldUpdates(state, named.map(withoutProperties))
  const merges = named.filter((update) => update.kind === 'merge')
  for (const [index, { projectId, distinctId, otherDistinctId }] of merges.entries()) {
    const isStored = persons.get(personName(projectId, otherDistinctId))?.isIdentified === true
    if (outcomes[index] !== 'already_identified' || isStored) continue
    // It was identified by another of these updates, which must come first.
    const [one, other] = [state.findPerson(projectId, distinctId), state.findPerson(projectId, otherDistinctId)]
    if (one !== null && other !== null && one !== other) other.mergedInto = one
  }
  return state
}
