import { type SentEvent } from '../capture/validate-event.ts'

type Properties = Record<string, unknown>

/**
 * Moves `$set`, `$set_once` and `$unset` from beside the properties into them, where the top level wins over the same
 * key inside. Returns the given object untouched when there is nothing to move.
 */
export function mergePersonProperties (sent: SentEvent, properties: Properties): Properties {
  if (sent.$set === undefined && sent.$set_once === undefined && sent.$unset === undefined) return properties
  const merged: Properties = { ...properties }
  if (isObject(sent.$set)) merged.$set = merge(properties.$set, sent.$set)
  if (isObject(sent.$set_once)) merged.$set_once = merge(properties.$set_once, sent.$set_once)
  const unset = [...unsetNames(properties.$unset), ...unsetNames(sent.$unset)]
  if (sent.$unset !== undefined && unset.length > 0) merged.$unset = [...new Set(unset)]
  return merged
}

/** Names to unset: a list of names, or the keys of an object. */
export function unsetNames (value: unknown): string[] {
  if (Array.isArray(value)) return value.filter((name) => typeof name === 'string')
  return isObject(value) ? Object.keys(value) : []
}

export function isObject (value: unknown): value is Properties {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An absent object is an empty one, and so is an empty array: PHP writes an object without fields as `[]`. */
export function toObject<T> (value: T | readonly [] | null | undefined): T | Properties {
  if (value === undefined || value === null) return {}
  return Array.isArray(value) && value.length === 0 ? {} : value as T
}

/** Spread copies an own key named `__proto__` as data, which assignment would not. */
function merge (inside: unknown, top: Properties): Properties {
  return isObject(inside) ? { ...inside, ...top } : top
}
