import type { Properties, PropertyOwner } from './persons-state.ts'

/**
 * Maximum bytes of the properties of one person or group, as JSON. Each change rewrites all of them, here and in
 * ClickHouse; PostHog's limit is near the same size.
 */
export const MAX_PROPERTIES_BYTES = 524_288

/** Exact size as JSON, in bytes. */
export function measureProperties (properties: Properties): number {
  return Buffer.byteLength(JSON.stringify(properties))
}

/**
 * Makes the size of an owner exact, once: whoever changes the properties of a measured owner keeps it exact, with
 * `entrySize`. To measure 512 KiB takes milliseconds, and a batch may have 15,000 changes.
 */
export function measureOwner (owner: PropertyOwner): void {
  if (owner.isMeasured) return
  owner.sizeBound = measureProperties(owner.properties)
  owner.isMeasured = true
}

/** Bytes of one property in the JSON, with its colon and the comma or brace behind it. */
export function entrySize (name: string, value: unknown): number {
  return Buffer.byteLength(JSON.stringify(name)) + Buffer.byteLength(JSON.stringify(value)) + 2
}

/** Bytes of all entries together, from those of the JSON: each entry brings the comma or brace behind it. */
export function entriesSize (size: number): number {
  return size === 2 ? 0 : size - 1
}

/** The opposite of `entriesSize`; `{}` has a brace without an entry. */
export function sizeOfEntries (entries: number): number {
  return entries === 0 ? 2 : entries + 1
}
