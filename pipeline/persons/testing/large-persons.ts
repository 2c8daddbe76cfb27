import { measureProperties } from '../properties-size.ts'
import type { PersonsState, PersonState, Properties } from '../persons-state.ts'

/** Adds a person to a state as load-persons.ts does, without a database. */
export function loadStored (state: PersonsState, distinctId: string, properties: Properties): PersonState {
  const person: PersonState = {
    projectId: 1, id: state.persons.length + 1, uuid: `person of ${distinctId}`, properties: { ...properties },
    sizeBound: 3 * measureProperties(properties), isMeasured: false,
    isIdentified: false, createdAt: 0, changed: false, mergedInto: null, absorbed: []
  }
  state.persons.push(person)
  state.loadPerson(distinctId, person)
  return person
}

/** As many small properties as fit into some bytes of JSON: what costs most to copy. */
export function largeProperties (bytes: number): Properties {
  return Object.fromEntries(Array.from({ length: Math.floor((bytes - 2) / 12) }, (_, i) =>
    [`k${i.toString(36).padStart(4, '0')}`, 'x']))
}

/** The fields that every update has, of the event with this number. */
export function made (number: number): { projectId: number, uuid: string, timestamp: number } {
  return { projectId: 1, uuid: `01900000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`, timestamp: number }
}
