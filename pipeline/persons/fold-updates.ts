import type {
  GroupTypeUpdate, GroupUpdate, MergeUpdate, PersonsUpdate, PersonUpdate
} from '../../schema/wire/persons-update.ts'
import { changeProperties } from './change-properties.ts'
import { createPerson, markIdentified, type PersonsState, type PersonState } from './persons-state.ts'
import { mergePersons } from './merge-persons.ts'
import { type PersonsOutcome, refuseUpdate } from './persons-outcome.ts'
import { changeByTime } from './property-times.ts'
import { MAX_PROPERTIES_BYTES } from './properties-size.ts'

/**
 * Applies updates to persons and groups in memory, one by one, in order.
 *
 * All ids that the updates name must have been loaded into the state. The result does not depend on how a sequence of
 * updates is split into batches.
 */
export function foldUpdates (state: PersonsState, updates: readonly PersonsUpdate[]): PersonsOutcome {
  const outcome: PersonsOutcome = { merges: [], refused: [], warnings: [] }
  for (const update of updates) {
    if (update.kind === 'group') foldGroupUpdate(state, update, outcome)
    else if (update.kind === 'groupType') indexGroupType(state, update, outcome)
    else foldPersonUpdate(state, update, outcome)
  }
  return outcome
}

function foldPersonUpdate (state: PersonsState, update: PersonUpdate | MergeUpdate, outcome: PersonsOutcome): void {
  if (update.kind === 'merge') mergePersons(state, update, outcome)
  const person = state.findPerson(update.projectId, update.distinctId) ?? createPerson(state, update)
  if (update.kind === 'person' && update.identify === true) markIdentified(person)
  foldProperties(person, update, outcome)
}

function foldProperties (person: PersonState, update: PersonUpdate | MergeUpdate, outcome: PersonsOutcome): void {
  if (changeByTime(person, update) === 'done') return
  const { set, setOnce, unset, ...rest } = update
  const { projectId, uuid, timestamp, distinctId, byTime } = rest
  const change = {
    ...(set && { set }), ...(setOnce && { setOnce }), ...(unset && { unset }), ...(byTime && { byTime })
  }
  // The dead letter carries properties only: the ids are merged already, and a replay must not merge them again.
  outcome.refused.push(refuseUpdate({ kind: 'person', projectId, uuid, timestamp, distinctId, ...change },
    'properties_too_large', `the properties of the person would exceed ${MAX_PROPERTIES_BYTES} bytes`))
  outcome.warnings.push({ projectId, reason: 'properties_too_large', example: { uuid, distinctId } })
}

/** Ignored group types make no dead letters: anyone with the public key can name them, and that stream is bounded. */
function indexGroupType (
  state: PersonsState, update: GroupUpdate | GroupTypeUpdate, outcome: PersonsOutcome
): number | null {
  const { projectId, groupType, uuid } = update
  const index = state.indexGroupType(projectId, groupType)
  if (index === null) outcome.warnings.push({ projectId, reason: 'too_many_group_types', example: { uuid, groupType } })
  return index
}

function foldGroupUpdate (state: PersonsState, update: GroupUpdate, outcome: PersonsOutcome): void {
  const { projectId, groupType, groupKey } = update
  const groupTypeIndex = indexGroupType(state, update, outcome)
  if (groupTypeIndex === null) return
  let group = state.findGroup(projectId, groupTypeIndex, groupKey)
  if (group === null) {
    group = {
      projectId, groupType, groupTypeIndex, groupKey, createdAt: Math.floor(update.timestamp),
      properties: {}, sizeBound: 2, isMeasured: false, changed: true
    }
    state.addGroup(group)
  }
  if (changeProperties(group, update) === 'done') return
  outcome.refused.push(refuseUpdate(update, 'properties_too_large',
    `the properties of the group would exceed ${MAX_PROPERTIES_BYTES} bytes`))
  outcome.warnings.push({
    projectId, reason: 'properties_too_large', example: { uuid: update.uuid, groupType, groupKey }
  })
}
