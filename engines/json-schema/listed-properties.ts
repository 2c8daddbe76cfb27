/**
 * Properties by their place in a list instead of by their name. To find a name in an object of some twenty properties
 * takes V8 longer than most checks do, and ingest has walked over all of them anyway, to describe them
 * (docs/benchmarks.md). Events of one kind mostly have the same names in the same order, so a schema remembers where
 * its properties stand.
 */
import type { NamedProperty } from './compile-object.ts'
import { begin, type Check, hasStepsLeft, storedValue } from './evaluation.ts'
import { sizeOfFastPath, surelyMeets } from './fast-path.ts'

/** The properties of an event as ingest has normalised them. */
export interface ListedProperties {
  /** All of them, in order. The same array for all events that have the same ones. */
  names: readonly string[]
  values: readonly unknown[]
}

/** Lists of names that a schema remembers: SDKs on several platforms, with and without some of the properties. */
const MAX_PLANS = 32

/**
 * Where in the lists of certain names the properties of a schema stand, and what it asks of them: a position, a fast
 * path, the next position, and so on. One array without objects of its own, as with 500 schemas in turns most of the
 * time goes into fetching what each has of its own.
 */
type Plan = readonly unknown[]

/**
 * Tells whether listed properties meet a schema for sure. Where it says no, the checks by name decide, and say what is
 * wrong.
 */
export class ListedCheck {
  #last: readonly string[] | null = null
  /** Of the last names; null: events with them cannot meet the schema. */
  #plan: Plan | null = null
  readonly #others: Check | null
  readonly #named: readonly NamedProperty[]
  readonly #plans = new Map<readonly string[], Plan | null>()
  /** The names for which there was no plan. */
  #missed: readonly string[] | null = null

  /** @param others  What the schema asks besides, of the properties as a whole; null: nothing. */
  constructor (named: readonly NamedProperty[], others: Check | null) {
    this.#named = named
    this.#others = others
  }

  surelyMeets ({ names, values }: ListedProperties, properties: unknown): boolean {
    if (names !== this.#last && !this.#find(names)) return false
    const plan = this.#plan
    if (plan === null) return false
    begin('sent')
    for (let at = 0; at < plan.length; at += 1 + sizeOfFastPath(plan, at + 1)) {
      const value = values[plan[at] as number]
      if (value === undefined) return false
      const stored = typeof value === 'string' ? value : storedValue(value)
      if (!surelyMeets(plan, stored, at + 1)) return false
    }
    return (this.#others === null || this.#others(properties)) && hasStepsLeft()
  }

  /** Makes the plan for these names the last one; false when there is none yet. */
  #find (names: readonly string[]): boolean {
    let plan = this.#plans.get(names)
    if (plan === undefined) {
      // Of names that do not come again, a plan would cost more than it saves.
      if (this.#missed !== names) {
        this.#missed = names
        return false
      }
      if (this.#plans.size === MAX_PLANS) this.#plans.clear()
      this.#plans.set(names, plan = buildPlan(this.#named, names))
    }
    this.#last = names
    this.#plan = plan
    return true
  }
}

/** Null when a property is missing that is required. */
function buildPlan (named: readonly NamedProperty[], names: readonly string[]): Plan | null {
  if (named.some(({ name, isRequired }) => isRequired && !names.includes(name))) return null
  return named.filter(({ name }) => names.includes(name))
    .flatMap(({ name, fastPath }) => [names.indexOf(name), ...fastPath])
}
