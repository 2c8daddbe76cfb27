import { pickOne, type Random } from '../../../test/support/random.ts'
import { foldUpdates } from '../fold-updates.ts'
import { isIllegalDistinctId } from '../merge-persons.ts'
import { finalPerson, PersonsState, type PersonState } from '../persons-state.ts'
import { type Repair, type ReplayedUpdate, replayPersons, type WholePerson } from '../replay-persons.ts'
import { randomUpdates } from './random-updates.ts'
import type { Step } from './repaired-model.ts'

const AT = Date.UTC(2026, 0)

/** A sequence of updates, and repairs between them, with what the pipeline makes of it: one after the other. */
export function randomRepairs (random: Random, projectId = 1): { steps: Step[], persons: WholePerson[] } {
  const updates = randomUpdates(random, projectId, 4 + Math.floor(random() * 12))
    .map((update, i) => ({ ...update, timestamp: AT + Math.floor(random() * 1000), receivedAt: AT + 2 * i }))
  const steps: Step[] = []
  const done: Repair[] = []
  let persons: WholePerson[] = []
  for (const [i, update] of updates.entries()) {
    persons = apply(persons, update)
    steps.push({ kind: 'update', update })
    if (random() > 0.3) continue
    const received = updates.slice(0, i + 1)
    const repair = randomRepair(random, received, persons)
    if (repair === null) continue
    persons = replayPersons(received, persons, done, repair)
    done.push(repair)
    steps.push(repair)
  }
  return { steps, persons }
}

function randomRepair (
  random: Random, updates: readonly ReplayedUpdate[], persons: readonly WholePerson[]
): Repair | null {
  const merges = updates.filter((update) => update.kind === 'merge' && update.distinctId !== update.otherDistinctId &&
    !isIllegalDistinctId(update.distinctId) && !isIllegalDistinctId(update.otherDistinctId))
  if (random() < 0.5 && merges.length > 0) return { kind: 'undo', uuid: pickOne(merges, random).uuid }
  const joined = persons.filter(({ distinctIds }) => distinctIds.length > 1)
  if (joined.length === 0) return null
  const parts = pickOne(joined, random).distinctIds.map((id) => [Math.floor(random() * 3), id] as const)
  return {
    kind: 'split', at: updates.at(-1)!.receivedAt + 1,
    parts: [1, 2].map((n) => parts.flatMap(([part, id]) => part === n ? [id] : [])).filter((ids) => ids.length > 0)
  }
}

function apply (persons: readonly WholePerson[], update: ReplayedUpdate): WholePerson[] {
  const state = new PersonsState()
  const ids = new Map<string, PersonState>()
  for (const { distinctIds, ...person } of persons) {
    const loaded: PersonState = {
      ...person, id: 1, sizeBound: 1e5, isMeasured: false, changed: false, mergedInto: null, absorbed: []
    }
    state.addPerson(loaded)
    for (const id of distinctIds) {
      state.loadPerson(id, loaded)
      ids.set(id, loaded)
    }
  }
  foldUpdates(state, [update])
  for (const { distinctId, person } of state.newIds) ids.set(distinctId, person)
  return [...Map.groupBy(ids, ([, person]) => finalPerson(person))]
    .map(([person, own]) => ({ ...person, distinctIds: own.map(([id]) => id) }))
}
