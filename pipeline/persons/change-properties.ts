import { isDeepStrictEqual } from 'node:util'
import type { Properties, PropertyOwner } from './persons-state.ts'

/**
 * Maximum bytes of the properties of one person or group, as JSON. Each change rewrites all of them, here and in
 * ClickHouse; PostHog's limit is near the same size.
 */
export const MAX_PROPERTIES_BYTES = 524_288

/** What an event does to properties. Within one event `setOnce` comes first, then `set`, then `unset`. */
export interface PropertyChange {
  set?: Properties
  setOnce?: Properties
  unset?: readonly string[]
}

/** Makes a change, or none of it when the properties would become larger than `MAX_PROPERTIES_BYTES`. */
export function changeProperties (owner: PropertyOwner, change: PropertyChange): 'done' | 'too_large' {
  const sizeBound = owner.sizeBound + boundSize(change.set) + boundSize(change.setOnce)
  if (sizeBound <= MAX_PROPERTIES_BYTES) {
    if (applyChange(owner.properties, change)) owner.changed = true
    owner.sizeBound = sizeBound
    return 'done'
  }
  const attempt = { ...owner.properties }
  if (!applyChange(attempt, change)) return 'done'
  const size = measureProperties(attempt)
  if (size > MAX_PROPERTIES_BYTES) return 'too_large'
  owner.properties = attempt
  owner.sizeBound = size
  owner.changed = true
  return 'done'
}

/** Exact size as JSON, in bytes. */
export function measureProperties (properties: Properties): number {
  return Buffer.byteLength(JSON.stringify(properties))
}

/** @returns whether anything is different now. */
function applyChange (properties: Properties, { set, setOnce, unset }: PropertyChange): boolean {
  let changed = false
  if (setOnce !== undefined) {
    for (const name of Object.keys(setOnce)) {
      if (Object.hasOwn(properties, name)) continue
      putProperty(properties, name, setOnce[name])
      changed = true
    }
  }
  if (set !== undefined) {
    for (const name of Object.keys(set)) {
      const value = set[name]
      if (Object.hasOwn(properties, name) && isSame(properties[name], value)) continue
      putProperty(properties, name, value)
      changed = true
    }
  }
  if (unset !== undefined) {
    for (const name of unset) {
      if (!Object.hasOwn(properties, name)) continue
      delete properties[name]
      changed = true
    }
  }
  return changed
}

/** A plain assignment to `__proto__` would set the prototype instead of a property. */
function putProperty (properties: Properties, name: string, value: unknown): void {
  if (name === '__proto__') {
    Object.defineProperty(properties, name, { value, writable: true, enumerable: true, configurable: true })
  } else {
    properties[name] = value
  }
}

/** Ignores the order of keys: Postgres has its own. */
function isSame (a: unknown, b: unknown): boolean {
  return a === b || (typeof a === 'object' && typeof b === 'object' && isDeepStrictEqual(a, b))
}

/** An upper bound of the bytes that the properties add to the JSON. An escaped character takes six bytes. */
function boundSize (properties: Properties | undefined): number {
  if (properties === undefined) return 0
  let bytes = 0
  for (const name of Object.keys(properties)) {
    const value = properties[name]
    bytes += name.length * 6 + 4
    if (typeof value === 'string') bytes += value.length * 6 + 2
    else if (typeof value === 'object' && value !== null) bytes += Buffer.byteLength(JSON.stringify(value))
    else bytes += 25
  }
  return bytes
}
