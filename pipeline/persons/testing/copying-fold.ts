import type { MergeUpdate, PersonUpdate } from '../../../schema/wire/persons-update.ts'
import { measureProperties } from '../properties-size.ts'
import type { Properties } from '../persons-state.ts'

/** A person of the copying fold. */
export interface CopiedPerson {
  properties: Properties
  isIdentified: boolean
  changed: boolean
}

/** What the copying fold makes of updates. */
export interface CopiedOutcome {
  /** By distinct id; merged ids share one. */
  persons: Map<string, CopiedPerson>
  /** Properties of dead letters, as JSON. */
  refused: string[]
}

/**
 * Folds updates of one project as plainly as it can be done: each change copies all properties and measures the copy.
 * Takes milliseconds an update when persons are large, but is easy to believe.
 *
 * @param limit    Maximum bytes of the properties of a person as JSON.
 * @param persons  Stored persons, by distinct id; they are changed.
 */
export function foldByCopying (
  limit: number, persons: Map<string, CopiedPerson>, updates: readonly (PersonUpdate | MergeUpdate)[]
): CopiedOutcome {
  const refused: string[] = []
  for (const update of updates) {
    if (update.kind === 'merge') merge(update)
    const person = find(update.distinctId)
    if (update.kind === 'person' && update.identify === true) identify(person)
    const { properties, isDifferent } = copyChanged(person.properties, update)
    if (isDifferent && measureProperties(properties) > limit) {
      const { set, setOnce, unset } = update
      refused.push(sorted({ set, setOnce, unset }))
    } else {
      person.properties = properties
      person.changed ||= isDifferent
    }
  }
  return { persons, refused }

  function find (distinctId: string): CopiedPerson {
    const person = persons.get(distinctId) ?? { properties: {}, isIdentified: false, changed: true }
    persons.set(distinctId, person)
    return person
  }

  function identify (person: CopiedPerson): void {
    person.changed ||= !person.isIdentified
    person.isIdentified = true
  }

  function merge ({ distinctId, otherDistinctId, how }: MergeUpdate): void {
    if (distinctId === otherDistinctId) return
    const source = persons.get(otherDistinctId)
    const target = persons.get(distinctId) ?? source ?? find(distinctId)
    persons.set(distinctId, target)
    const isRefused = source !== undefined && source !== target && source.isIdentified && how !== 'force'
    identify(target)
    if (isRefused) return
    if (source !== undefined && source !== target) {
      const united = { ...source.properties, ...target.properties }
      if (measureProperties(united) > limit) refused.push(sorted({ setOnce: source.properties }))
      else target.properties = united
      target.changed = true
      for (const [id, person] of persons) if (person === source) persons.set(id, target)
    }
    persons.set(otherDistinctId, target)
  }
}

function copyChanged (
  before: Properties, { set = {}, setOnce = {}, unset = [] }: PersonUpdate | MergeUpdate
): { properties: Properties, isDifferent: boolean } {
  const after = new Map(Object.entries(before))
  let isDifferent = false
  for (const [name, value] of Object.entries(setOnce)) {
    if (after.has(name)) continue
    after.set(name, value)
    isDifferent = true
  }
  for (const [name, value] of Object.entries(set)) {
    if (after.has(name) && sorted(after.get(name)) === sorted(value)) continue
    after.set(name, value)
    isDifferent = true
  }
  for (const name of unset) isDifferent = after.delete(name) || isDifferent
  return { properties: Object.fromEntries(after), isDifferent }
}

/** JSON with the names of objects in order. */
export function sorted (value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => typeof inner === 'object' && inner !== null && !Array.isArray(inner) && !('rawJSON' in inner)
    ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1))
    : inner)
}
