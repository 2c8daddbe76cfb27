import { type MergeUpdate, type PersonUpdate } from '../../../schema/persons-update.ts'
import { personUuid } from '../../../platform/persons/person-uuid.ts'
import { type PersonsState } from '../load/persons-state.ts'
import { type PersonState } from '../load/person-state.ts'

/** A new person whose first id is the update's. */
export function createPerson (state: PersonsState, update: PersonUpdate | MergeUpdate): PersonState {
  const person: PersonState = {
    projectId: update.projectId, id: null, uuid: personUuid(update.projectId, update.distinctId),
    properties: {}, sizeBound: 2, isIdentified: false, createdAt: Math.floor(update.timestamp),
    changed: true, mergedInto: null, absorbed: []
  }
  state.addPerson(person)
  state.assignDistinctId(update.distinctId, person)
  return person
}

export function markIdentified (person: PersonState): void {
  if (person.isIdentified) return
  person.isIdentified = true
  person.changed = true
}
