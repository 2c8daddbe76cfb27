import { entriesSize, entrySize, MAX_PROPERTIES_BYTES, measureOwner, sizeOfEntries } from './properties-size.ts'
import { type Properties, type PropertyOwner, putProperty } from './persons-state.ts'

/**
 * Unites the properties of two persons, as `{ ...source, ...target }` does: the target's win, the source's fill the
 * gaps. Nothing changes when they would be larger than `MAX_PROPERTIES_BYTES`. When they fit, the source's object may
 * have become the target's: it is not to be used any more.
 *
 * Goes over the smaller of both only, so a batch of merges takes time by what is merged: neither a large target, nor a
 * large source that is merged from person to person, is copied each time.
 */
export function uniteProperties (target: PropertyOwner, source: PropertyOwner): 'done' | 'too_large' {
  let size = target.sizeBound + source.sizeBound
  // What was exact stays so: to measure a large person again after each merge would cost what is saved here.
  const isMeasured = target.isMeasured || source.isMeasured || size > MAX_PROPERTIES_BYTES
  if (isMeasured) {
    measureOwner(target)
    measureOwner(source)
    size = unitedSize(target, source)
    if (size > MAX_PROPERTIES_BYTES) return 'too_large'
  }
  if (source.sizeBound < target.sizeBound) addMissing(target, source)
  else putOver(source, target)
  target.sizeBound = size
  target.isMeasured = isMeasured
  return 'done'
}

/** Both are measured. */
function unitedSize (target: PropertyOwner, source: PropertyOwner): number {
  const smaller = source.sizeBound < target.sizeBound ? source : target
  let entries = entriesSize(target.sizeBound) + entriesSize(source.sizeBound)
  for (const name of Object.keys(smaller.properties)) {
    const isCommon = Object.hasOwn(target.properties, name) && Object.hasOwn(source.properties, name)
    if (isCommon) entries -= entrySize(name, source.properties[name])
  }
  return sizeOfEntries(entries)
}

/** Puts what the target lacks behind its properties, and remembers that the source's names come first. */
function addMissing (target: PropertyOwner, source: PropertyOwner): void {
  orderProperties(source)
  for (const name of Object.keys(source.properties).reverse()) {
    target.leading.delete(name)
    target.leading.add(name)
  }
  for (const name of Object.keys(source.properties)) {
    if (!Object.hasOwn(target.properties, name)) putProperty(target.properties, name, source.properties[name])
  }
}

/** Puts the target's properties over the source's, and gives the target the result. */
function putOver (source: PropertyOwner, target: PropertyOwner): void {
  orderProperties(target)
  for (const name of Object.keys(target.properties)) putProperty(source.properties, name, target.properties[name])
  target.properties = source.properties
  target.leading = source.leading
}

/**
 * Brings the names into the order in which they are stored: Postgres has an order of its own, ClickHouse and dead
 * letters show the text as it is written. An object can only grow at its end, so this waits until the text is needed.
 */
export function orderProperties (owner: PropertyOwner): void {
  const { properties, leading } = owner
  if (leading.size === 0) return
  const ordered: Properties = {}
  for (const name of [...leading].reverse()) putProperty(ordered, name, properties[name])
  for (const name of Object.keys(properties)) {
    if (!leading.has(name)) putProperty(ordered, name, properties[name])
  }
  owner.properties = ordered
  owner.leading = new Set()
}
