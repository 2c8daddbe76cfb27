import type { PersonsUpdate } from '../../../schema/wire/persons-update.ts'
import { pickOne, type Random } from '../../../test/support/random.ts'
import { foldUpdates } from '../fold-updates.ts'
import { leaveOut } from '../leave-out-undone.ts'
import { isIllegalDistinctId } from '../merge-persons.ts'
import { finalPerson, PersonsState, type PersonState } from '../persons-state.ts'
import { type Repair, type ReplayedUpdate, replayPersons, type WholePerson } from '../replay-persons.ts'
import { randomUpdates } from './random-updates.ts'
import type { Step } from './repaired-model.ts'

const AT = Date.UTC(2026, 0)

/**
 * A sequence of updates, and repairs and dead letters between them, with what the pipeline makes of it: one after the
 * other, and the letters at the end.
 */
export function randomRepairs (random: Random, projectId = 1): { steps: Step[], persons: WholePerson[] } {
  const updates = randomUpdates(random, projectId, 4 + Math.floor(random() * 12))
    .map((update, i) => ({ ...update, timestamp: AT + Math.floor(random() * 1000), receivedAt: AT + 2 * i }))
  const steps: Step[] = []
  const done: Repair[] = []
  const received: ReplayedUpdate[] = []
  const letters: ReplayedUpdate[] = []
  let persons: WholePerson[] = []
  for (const update of updates) {
    if (random() < 0.15) {
      letters.push(update)
      steps.push({ kind: 'letter', update })
      continue
    }
    persons = apply(persons, update)
    received.push(update)
    steps.push({ kind: 'update', update })
    if (random() > 0.3) continue
    const repair = randomRepair(random, received, persons)
    if (repair === null) continue
    persons = replayPersons(received, persons, done, repair)
    done.push(repair)
    steps.push(repair)
  }
  const splits = done.flatMap((repair) => repair.kind === 'split' ? [{ ...repair, projectId }] : [])
  const undone = new Set(done.flatMap((repair) => repair.kind === 'undo' ? [repair.uuid] : []))
  for (const letter of letters) {
    for (const update of leaveOut(letter, { erased: new Map(), undone, splits })) persons = apply(persons, update)
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
  const { distinctIds } = pickOne(joined, random)
  const parts = distinctIds.map((id) => [Math.floor(random() * 3), id] as const)
  const leaving = [1, 2].map((n) => parts.flatMap(([part, id]) => part === n ? [id] : []))
    .filter((ids) => ids.length > 0)
  // The pipeline refuses a split of nothing.
  return leaving.some((ids) => ids.length === distinctIds.length) ? null : { kind: 'split', at: updates.at(-1)!.receivedAt + 1, parts: leaving }
}

function apply (persons: readonly WholePerson[], update: PersonsUpdate): WholePerson[] {
  const state = new PersonsState()
  const ids = new Map<string, PersonState>()
  for (const { distinctIds, ...person } of persons) {
    const loaded: PersonState = {
      ...person, id: 1, sizeBound: 1e5, isMeasured: false, changed: false, mergedInto: null, absorbed: []
    }
    state.persons.push(loaded)
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
