/**
 * Properties by their place in a list instead of by their name. To find a name in an object of some twenty properties
 * takes V8 longer than most checks do, and ingest has walked over all of them anyway, to describe them
 * (docs/benchmarks.md). Events of one kind mostly have the same names in the same order, so a schema remembers where
 * its properties stand.
 */
import type { NamedProperty } from './compile-object.ts'
import { begin, type Check, hasStepsLeft, storedValue } from './evaluation.ts'
import { type FastPath, surelyMeets } from './fast-path.ts'

/** The properties of an event as ingest has normalised them. */
export interface ListedProperties {
  /** All of them, in order. The same array for all events that have the same ones. */
  names: readonly string[]
  values: readonly unknown[]
}

/** Lists of names that a schema remembers: SDKs on several platforms, with and without some of the properties. */
const MAX_PLANS = 32

/** Where in the lists of certain names the properties of a schema stand. */
interface Plan {
  positions: readonly number[]
  /** What is asked of the value at each position; null: its check decides. */
  fastPaths: readonly (FastPath | null)[]
  checks: readonly Check[]
}

/**
 * Tells whether listed properties meet a schema for sure. Where it says no, the checks by name decide, and say what is
 * wrong.
 *
 * @param others  What the schema asks besides, of the properties as a whole.
 */
export function createSurelyMeetsListed (
  named: readonly NamedProperty[], others: Check
): (listed: ListedProperties, properties: unknown) => boolean {
  const plans = new Map<readonly string[], Plan | null>()
  /** The names for which there was no plan. */
  let missed: readonly string[] | null = null
  let last: readonly string[] | null = null
  /** Null: events with the last names cannot meet the schema. */
  let lastPlan: Plan | null = null

  return function surelyMeetsListed ({ names, values }, properties) {
    if (names !== last && !find(names)) return false
    if (lastPlan === null) return false
    const { positions, fastPaths, checks } = lastPlan
    begin('sent')
    for (let at = 0; at < positions.length; at++) {
      const value = values[positions[at]!]
      if (value === undefined) return false
      const stored = typeof value === 'string' ? value : storedValue(value)
      const fastPath = fastPaths[at]!
      if (fastPath !== null ? !surelyMeets(fastPath, stored) : !checks[at]!(stored)) return false
    }
    return others(properties) && hasStepsLeft()
  }

  /** Makes the plan for these names the last one; false when there is none yet. */
  function find (names: readonly string[]): boolean {
    let plan = plans.get(names)
    if (plan === undefined) {
      // Of names that do not come again, a plan would cost more than it saves.
      if (missed !== names) {
        missed = names
        return false
      }
      if (plans.size === MAX_PLANS) plans.clear()
      plans.set(names, plan = buildPlan(named, names))
    }
    last = names
    lastPlan = plan
    return true
  }
}

/** Null when a property is missing that is required. */
function buildPlan (named: readonly NamedProperty[], names: readonly string[]): Plan | null {
  if (named.some(({ name, isRequired }) => isRequired && !names.includes(name))) return null
  const present = named.filter(({ name }) => names.includes(name))
  return {
    positions: present.map(({ name }) => names.indexOf(name)),
    fastPaths: present.map(({ fastPath }) => fastPath),
    checks: present.map(({ check }) => check)
  }
}
