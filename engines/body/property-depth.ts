/**
 * How deep the value of a property may be nested: that of an event, of a person and of a group. One rule for all of
 * them, so that nothing is published that no reader takes. What readers take, measured with nested arrays and objects:
 *
 * - the JSON functions of ClickHouse: 1,022 levels below the object of properties; one value that is deeper makes all
 *   properties of its event unreadable
 * - `json.loads` of Python: 994
 * - jsonb of Postgres: 16,343 with its default `max_stack_depth` of 2 MB
 *
 * What people nest on purpose stays below 20; deeper is a structure that refers to itself.
 */
import { isExactNumber } from './parse-json.ts'

/** Arrays and objects within each other, at most, in the value of a property. */
export const MAX_PROPERTY_DEPTH = 200

type Properties = Record<string, unknown>

/** Properties that hold those of persons and groups, or groups: only the values that are too deep are removed. */
const HOLDERS: ReadonlySet<string> = new Set(['$set', '$set_once', '$group_set', '$groups'])
const NO_HOLDERS: ReadonlySet<string> = new Set()

/**
 * Whether a value has arrays and objects more than `levels` deep in each other. A number or text costs one comparison.
 * Calls itself no deeper than `levels`, whatever the value is.
 */
export function isDeeperThan (value: unknown, levels: number): boolean {
  return typeof value === 'object' && value !== null && isNestedDeeper(value, levels)
}

/** Asks of each value whether it is one before it calls itself: most are numbers and texts. */
function isNestedDeeper (value: object, levels: number): boolean {
  if (levels === 0) return !isExactNumber(value)
  if (Array.isArray(value)) {
    for (const inner of value as readonly unknown[]) {
      if (typeof inner === 'object' && inner !== null && isNestedDeeper(inner, levels - 1)) return true
    }
    return false
  }
  for (const name in value) {
    const inner = (value as Properties)[name]
    if (typeof inner === 'object' && inner !== null && isNestedDeeper(inner, levels - 1)) return true
  }
  return false
}

/**
 * The properties of an event without those that are nested too deep; in `$set` and the like only the properties that
 * are.
 *
 * @returns the given object if nothing is removed; and the names of removed ones, such as `plan`, `$set.plan`.
 */
export function withoutDeepProperties (properties: Properties): { properties: Properties, dropped: readonly string[] } {
  const dropped: string[] = []
  if (!isDeeperThan(properties, MAX_PROPERTY_DEPTH)) return { properties, dropped }
  return { properties: dropDeep(properties, HOLDERS, (name) => dropped.push(name)), dropped }
}

function dropDeep (
  properties: Properties, holders: ReadonlySet<string>, onDropped: (name: string) => void
): Properties {
  const kept: [string, unknown][] = []
  let isChanged = false
  for (const [name, value] of Object.entries(properties)) {
    let inner = value
    if (holders.has(name) && isFields(value)) {
      inner = dropDeep(value, NO_HOLDERS, (within) => onDropped(`${name}.${within}`))
    } else if (isDeeperThan(value, MAX_PROPERTY_DEPTH)) {
      onDropped(name)
      isChanged = true
      continue
    }
    isChanged ||= inner !== value
    kept.push([name, inner])
  }
  // Not by assignment: `__proto__` is a name like any other.
  return isChanged ? Object.fromEntries(kept) : properties
}

function isFields (value: unknown): value is Properties {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value)
}
