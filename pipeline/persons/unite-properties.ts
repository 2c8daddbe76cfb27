import { entriesSize, entrySize, MAX_PROPERTIES_BYTES, measureOwner, sizeOfEntries } from './properties-size.ts'
import { type PropertyOwner, putProperty } from './persons-state.ts'

/**
 * Unites the properties of two persons, as `{ ...source, ...target }` does but for their order, which means nothing:
 * the target's win, the source's fill the gaps. Nothing changes when they would be larger than `MAX_PROPERTIES_BYTES`.
 * When they fit, the source's object may have become the target's: it is not to be used any more.
 *
 * Iterates over the smaller one only, so a batch of merges takes time by the merged data: neither a large target, nor a
 * large source that is merged from person to person, is copied each time.
 */
export function uniteProperties (target: PropertyOwner, source: PropertyOwner): 'done' | 'too_large' {
  let size = target.sizeBound + source.sizeBound
  // Exact sizes stay exact: measuring a large person again after each merge would cost the time saved here.
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

/** Gives the target what it lacks. */
function addMissing (target: PropertyOwner, source: PropertyOwner): void {
  for (const name of Object.keys(source.properties)) {
    if (!Object.hasOwn(target.properties, name)) putProperty(target.properties, name, source.properties[name])
  }
}

/** Puts the target's properties over the source's, and gives the target the result. */
function putOver (source: PropertyOwner, target: PropertyOwner): void {
  for (const name of Object.keys(target.properties)) putProperty(source.properties, name, target.properties[name])
  target.properties = source.properties
}
