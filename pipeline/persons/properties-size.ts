import type { PropertyOwner } from './persons-state.ts'

/**
 * Maximum bytes of the properties of one person or group, as JSON with all digits of its numbers. Each change rewrites
 * all of them, here and in ClickHouse; PostHog's limit is near the same size.
 */
export const MAX_PROPERTIES_BYTES = 524_288

/** A text, or a number with an exponent. */
const TEXT_OR_EXPONENT = /"(?:[^"\\]|\\.)*"|[eE][+-]?(\d+)/g

/**
 * Bytes of properties or a value as JSON. Postgres writes numbers out: 100,000 times `1e300` are 30 MB where the
 * persons are read, of 600 KB that were sent.
 */
export function measureProperties (value: unknown): number {
  const json = JSON.stringify(value)
  let bytes = Buffer.byteLength(json)
  if (!/\d[eE]/.test(json)) return bytes
  for (const [, exponent] of json.matchAll(TEXT_OR_EXPONENT)) bytes += Number(exponent ?? 0)
  return bytes
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
  return Buffer.byteLength(JSON.stringify(name)) + measureProperties(value) + 2
}

/** Bytes of all entries together, from those of the JSON: each entry brings the comma or brace behind it. */
export function entriesSize (size: number): number {
  return size === 2 ? 0 : size - 1
}

/** The opposite of `entriesSize`; `{}` has a brace without an entry. */
export function sizeOfEntries (entries: number): number {
  return entries === 0 ? 2 : entries + 1
}
