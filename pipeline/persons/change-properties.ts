import { isDeepStrictEqual } from 'node:util'
import { entriesSize, entrySize, MAX_PROPERTIES_BYTES, measureOwner, sizeOfEntries } from './properties-size.ts'
import { type Properties, type PropertyOwner, putProperty } from './persons-state.ts'

/** What an event does to properties. Within one event `setOnce` comes first, then `set`, then `unset`. */
export interface PropertyChange {
  set?: Properties
  setOnce?: Properties
  unset?: readonly string[]
}

/**
 * Makes a change, or none of it when the properties would become larger than `MAX_PROPERTIES_BYTES`.
 *
 * Takes time by the size of the change, not of the properties: anybody with the public key can make them large once and
 * then send thousands of small changes.
 */
export function changeProperties (owner: PropertyOwner, change: PropertyChange): 'done' | 'too_large' {
  const differences = findDifferences(owner.properties, change)
  if (differences.size === 0) return 'done'
  let size = owner.sizeBound + boundSize(differences)
  if (owner.isMeasured || size > MAX_PROPERTIES_BYTES) {
    measureOwner(owner)
    size = sizeWith(owner, differences)
    if (size > MAX_PROPERTIES_BYTES) return 'too_large'
  }
  for (const [name, value] of differences) {
    if (value === REMOVED) delete owner.properties[name]
    else putProperty(owner.properties, name, value)
  }
  owner.sizeBound = size
  owner.changed = true
  return 'done'
}

/** In place of the value of a name that is not there after the change. */
const REMOVED = Symbol('removed')

/** What names have after a change. It is known before anything is changed, so a refused change needs no undoing. */
type Differences = Map<string, unknown>

/** The names that the change touches, in the order in which they come into the properties. */
function findDifferences (properties: Properties, { set = {}, setOnce = {}, unset = [] }: PropertyChange): Differences {
  const differences: Differences = new Map()
  for (const name of Object.keys(setOnce)) {
    if (Object.hasOwn(properties, name) && !isBlankInitial(name, properties[name])) continue
    if (!isBlankInitial(name, setOnce[name])) differences.set(name, setOnce[name])
  }
  for (const name of Object.keys(set)) {
    const value = set[name]
    const isThere = differences.has(name) || Object.hasOwn(properties, name)
    if (isThere && isSame(differences.has(name) ? differences.get(name) : properties[name], value)) continue
    differences.set(name, value)
  }
  for (const name of unset) {
    if (differences.has(name) || Object.hasOwn(properties, name)) differences.set(name, REMOVED)
  }
  return differences
}

/**
 * A first value that says nothing: posthog-js sends `null` or an empty text for each campaign parameter that a page
 * does not have. Kept as the first one, it would stand in the way of the campaign that comes later.
 */
function isBlankInitial (name: string, value: unknown): boolean {
  return (value === null || value === '') && name.startsWith('$initial_')
}

/** Ignores the order of keys: Postgres has its own. */
function isSame (a: unknown, b: unknown): boolean {
  return a === b || (typeof a === 'object' && typeof b === 'object' && isDeepStrictEqual(a, b))
}

/** Exact size of the properties after the change, from their exact size before it. */
function sizeWith ({ properties, sizeBound }: PropertyOwner, differences: Differences): number {
  let entries = entriesSize(sizeBound)
  for (const [name, value] of differences) {
    if (Object.hasOwn(properties, name)) entries -= entrySize(name, properties[name])
    if (value !== REMOVED) entries += entrySize(name, value)
  }
  return sizeOfEntries(entries)
}

/** An upper bound of the bytes that a change adds to the JSON. An escaped character takes six bytes. */
function boundSize (differences: Differences): number {
  let bytes = 0
  for (const [name, value] of differences) {
    if (value === REMOVED) continue
    bytes += typeof value === 'string' ? (name.length + value.length) * 6 + 6 : entrySize(name, value)
  }
  return bytes
}
