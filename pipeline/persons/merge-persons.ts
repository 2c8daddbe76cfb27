import type { MergeUpdate } from '../../schema/wire/persons-update.ts'
import { type MergeOutcome, type PersonsOutcome, refuseUpdate } from './persons-outcome.ts'
import { createPerson, markIdentified, type PersonsState, type PersonState } from './persons-state.ts'
import { MAX_PROPERTIES_BYTES } from './properties-size.ts'
import { uniteTimes } from './property-times.ts'
import { uniteProperties } from './unite-properties.ts'

/** What clients send when they have no id, in any letter case: merging by one would make strangers one person. */
const ILLEGAL_IN_ANY_CASE = new Set([
  'anonymous', 'guest', 'distinctid', 'distinct_id', 'id', 'not_authenticated', 'email', 'undefined', 'true', 'false'
])

/** The same, in exactly this letter case. */
const ILLEGAL = new Set(['[object Object]', 'NaN', 'None', 'none', 'null', '0', 'undefined'])

/** Thirty-two zeros, which stand for a device or a session that is unknown. */
const NIL_UUID = /^\{?0{8}(-?)0{4}\1(?:0{4}\1){2}0{12}\}?$/

/**
 * Merges the persons of two distinct ids into one, if the rules of docs/query/persons.md allow it. The caller applies
 * the properties of the update itself.
 */
export function mergePersons (state: PersonsState, update: MergeUpdate, outcome: PersonsOutcome): void {
  const result = mergeIds(state, update, outcome)
  outcome.merges.push(result)
  if (result === 'illegal_distinct_id' || result === 'already_identified') {
    const { projectId, uuid, distinctId, otherDistinctId } = update
    outcome.warnings.push({ projectId, reason: result, example: { uuid, distinctId, otherDistinctId } })
  }
}

function mergeIds (state: PersonsState, update: MergeUpdate, outcome: PersonsOutcome): MergeOutcome {
  const { projectId, distinctId, otherDistinctId } = update
  if (isIllegalDistinctId(distinctId) || isIllegalDistinctId(otherDistinctId)) return 'illegal_distinct_id'
  if (distinctId === otherDistinctId) return 'same'
  const target = state.findPerson(projectId, distinctId)
  const source = state.findPerson(projectId, otherDistinctId)

  if (target === null || source === null) {
    const person = target ?? source ?? createPerson(state, update)
    if (target === null && source !== null) state.assignDistinctId(distinctId, person)
    if (source === null) state.assignDistinctId(otherDistinctId, person)
    if (update.isBridge !== true && (target !== null || update.identify !== false)) markIdentified(person)
    return target === null && source === null ? 'created' : 'added'
  }
  if (target === source) {
    if (update.identify !== false) markIdentified(target)
    return 'same'
  }
  const isRefused = source.isIdentified && update.how !== 'force'
  if (update.isBridge !== true) markIdentified(target)
  if (isRefused) return 'already_identified'
  absorbPerson(target, source, update, outcome)
  return 'merged'
}

/** The target keeps its id and its properties; the source's properties fill the gaps. */
function absorbPerson (target: PersonState, source: PersonState, update: MergeUpdate, outcome: PersonsOutcome): void {
  uniteTimes(target, source)
  if (uniteProperties(target, source) === 'too_large') deadLetterProperties(source, update, outcome)
  target.createdAt = Math.min(target.createdAt, source.createdAt)
  target.changed = true
  target.absorbed.push(source)
  source.mergedInto = target
}

/** Properties that do not fit do not stop the merge: they become a dead letter. */
function deadLetterProperties (source: PersonState, update: MergeUpdate, outcome: PersonsOutcome): void {
  const { projectId, uuid, timestamp, distinctId } = update
  const asUpdate = { kind: 'person', projectId, uuid, timestamp, distinctId, setOnce: source.properties } as const
  outcome.refused.push(refuseUpdate(asUpdate, 'properties_too_large',
    `the properties of the merged person would exceed ${MAX_PROPERTIES_BYTES} bytes: this letter has the properties of the person that was merged away`))
  outcome.warnings.push({ projectId, reason: 'properties_too_large', example: { uuid, distinctId } })
}

/** Whether a distinct id must never be part of a merge: one of the above, also in quotes, blank, or the nil uuid. */
export function isIllegalDistinctId (distinctId: string): boolean {
  const bare = unquote(distinctId.trim())
  return bare.trim() === '' || ILLEGAL.has(bare) || ILLEGAL_IN_ANY_CASE.has(bare.toLowerCase()) || NIL_UUID.test(bare)
}

function unquote (text: string): string {
  const quote = text.charAt(0)
  return (quote === '"' || quote === "'") && text.length > 1 && text.endsWith(quote) ? text.slice(1, -1) : text
}
