/**
 * Computes persons again from the updates that made them, as if a merge had never been, or a person had been split.
 * `repair-persons.ts` reads the updates and writes the result.
 *
 * A split keeps everything else as it was: all earlier merges are replaced by those within the remaining persons. An
 * undone merge never was: whatever it prevented or allowed is decided again.
 */
import { isDeepStrictEqual } from 'node:util'
import { personUuid } from '../../schema/wire/identity.ts'
import type { MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'
import { foldUpdates } from './fold-updates.ts'
import { isIllegalDistinctId } from './merge-persons.ts'
import { finalPerson, PersonsState, type PersonState, putProperty } from './persons-state.ts'

export type ReplayedUpdate = (PersonUpdate | MergeUpdate) & { receivedAt: number }

export type Repair =
  | { kind: 'undo', uuid: string }
  /** Each part leaves its person as one; of merges received up to `at`, epoch milliseconds. */
  | { kind: 'split', parts: readonly (readonly string[])[], at: number }

/** A repair that can never be carried out. */
export class RepairRefused extends Error {}

/** A person with all its distinct ids. */
export interface WholePerson extends Pick<
  PersonState, 'projectId' | 'properties' | 'times' | 'isIdentified' | 'createdAt'
> {
  uuid: string
  distinctIds: string[]
}

/**
 * Computes what becomes of persons by a repair.
 *
 * @param updates  Of all ids of these persons, in the order of receipt.
 * @param stored   All persons that merges of the updates relate, as they are.
 * @param done     Earlier repairs, in order.
 * @throws {RepairRefused}
 */
export function replayPersons (
  updates: readonly ReplayedUpdate[], stored: readonly WholePerson[], done: readonly Repair[], repair: Repair
): WholePerson[] {
  const known = new Set(stored.flatMap(({ distinctIds }) => distinctIds))
  const isKnown = (id: string): boolean => known.has(id) || isIllegalDistinctId(id)
  const leaveUnknown = (world: readonly ReplayedUpdate[]): ReplayedUpdate[] =>
    leaveMerges(world, ({ otherDistinctId }) => !isKnown(otherDistinctId), ({ identify }) => identify !== false)
  const apply = (world: readonly ReplayedUpdate[], repairs: readonly Repair[]): readonly ReplayedUpdate[] =>
    applySplits(leaveUnknown(leaveUndone(world, repairs)), repairs)
  let world: readonly ReplayedUpdate[] = updates.filter(({ distinctId }) => known.has(distinctId))
  let before = foldPersons(apply(world, done))
  let repairs = [...done, repair]
  if (!areSameGroups(before, stored)) {
    // Updates are missing, such as those of events that retention removed: the persons are as they are stored.
    world = freeze([...joinPieces(before, stored), ...apply(world, done)], groupsOf(stored), Infinity)
    before = foldPersons(world)
    if (!areSameGroups(before, stored)) throw new RepairRefused('a person has distinct ids that no merge joins')
    repairs = [repair]
  }
  const after = foldPersons(apply(world, repairs))
  for (const person of stored) keepUnexplained(person, before, after)
  return after
}

/** A split concerns what would have been without the undone merges, so these are left out first. */
function leaveUndone (updates: readonly ReplayedUpdate[], repairs: readonly Repair[]): ReplayedUpdate[] {
  const undone = new Set(repairs.map((repair) => repair.kind === 'undo' ? repair.uuid : null))
  return leaveMerges(updates, ({ uuid }) => undone.has(uuid), ({ how }) => how === 'identify')
}

function applySplits (updates: readonly ReplayedUpdate[], repairs: readonly Repair[]): readonly ReplayedUpdate[] {
  return repairs.reduce((world, repair) => repair.kind === 'split' ? split(world, repair) : world, updates)
}

/** Leaves out some merges, but not what they set. */
function leaveMerges (
  updates: readonly ReplayedUpdate[],
  isLeft: (update: MergeUpdate) => boolean, identifies: (update: MergeUpdate) => boolean
): ReplayedUpdate[] {
  return updates.flatMap((update) => {
    if (update.kind !== 'merge' || !isLeft(update)) return [update]
    return update.isBridge === true ? [] : withoutMerge(update, identifies(update))
  })
}

function split (updates: readonly ReplayedUpdate[], { parts, at }: Repair & { kind: 'split' }): ReplayedUpdate[] {
  const personOf = groupsOf(foldPersons(updates.filter(({ receivedAt }) => receivedAt <= at)))
  const partOf = groupsOf(parts.map((distinctIds) => ({ distinctIds })))
  return freeze(updates, (id) => `${personOf(id) ?? ''}:${partOf(id) ?? ''}`, at)
}

/** Its properties still count. */
function withoutMerge (update: MergeUpdate & ReplayedUpdate, identify = false): ReplayedUpdate[] {
  const { otherDistinctId: _, how, set, setOnce, unset, byTime, isBridge: __, ...rest } = update
  // What a forced merge sets counts as the latest.
  const timestamp = how === 'force' ? update.receivedAt : update.timestamp
  const changes = { ...set && { set }, ...setOnce && { setOnce }, ...unset && { unset }, ...byTime && { byTime } }
  const plain = { ...rest, kind: 'person', identify } as const
  return [plain, { ...plain, timestamp, ...changes }]
}

/**
 * Replaces the merges received up to a time by those that join ids of the same group: directly, or when they joined two
 * persons that each had one.
 */
function freeze (
  updates: readonly ReplayedUpdate[], groupOf: (distinctId: string) => unknown, at: number
): ReplayedUpdate[] {
  const { merges } = foldUpdates(new PersonsState(), updates)
  const joined = new Map<string, string[]>()
  const idsOf = (id: string): string[] => joined.get(id) ?? [id]
  const seen = new Set<string>()
  let next = 0
  return updates.flatMap((update): ReplayedUpdate[] => {
    const isNew = !seen.has(update.distinctId)
    seen.add(update.distinctId)
    if (update.kind !== 'merge') return [update]
    const outcome = merges[next++]
    const { projectId, uuid, timestamp, receivedAt, distinctId, otherDistinctId } = update
    if (receivedAt > at || outcome === 'illegal_distinct_id' || distinctId === otherDistinctId) return [update]
    const origin = { projectId, uuid, timestamp, receivedAt }
    const bridge = { ...origin, kind: 'merge', how: 'force', identify: false, isBridge: true } as const
    const [targets, sources] = [idsOf(distinctId), idsOf(otherDistinctId)]
    const isJoined = outcome === 'merged' || outcome === 'added' || outcome === 'created'
    const bridges: ReplayedUpdate[] = []
    if (isJoined) {
      const sourceOf = new Map(sources.toReversed().map((id) => [groupOf(id), id]))
      for (const [group, into] of new Map(targets.toReversed().map((id) => [groupOf(id), id]))) {
        const from = sourceOf.get(group)
        if (from !== undefined) bridges.push({ ...bridge, distinctId: into, otherDistinctId: from })
      }
      for (const id of [distinctId, otherDistinctId]) bridges.push({ ...origin, kind: 'person', distinctId: id })
      const all = [...targets, ...sources]
      for (const id of all) joined.set(id, all)
      seen.add(otherDistinctId)
    }
    if (update.isBridge === true) return bridges
    const identify = update.identify !== false || !(isNew || outcome === 'same')
    return [...bridges, ...withoutMerge(update, identify)]
  })
}

/** Merges that unite what no known merge united, and distinct ids that no known update created. */
function joinPieces (persons: readonly WholePerson[], stored: readonly WholePerson[]): ReplayedUpdate[] {
  const pieceOf = groupsOf(persons)
  return stored.flatMap(({ projectId, uuid, distinctIds, createdAt }): ReplayedUpdate[] => {
    const isOrigin = (id: string): boolean => personUuid(projectId, id) === uuid
    const [first = '', ...others] = new Map(distinctIds.toSorted((a, b) => Number(isOrigin(a)) - Number(isOrigin(b)))
      .map((id) => [pieceOf(id) ?? `:${id}`, id])).values().toArray().reverse()
    const origin = { projectId, uuid: '', timestamp: createdAt, receivedAt: 0 }
    const bridges = others.map((id) => ({
      ...origin, kind: 'merge', distinctId: first, otherDistinctId: id, how: 'force', identify: false, isBridge: true
    } as const))
    return pieceOf(first) === undefined ? [{ ...origin, kind: 'person', distinctId: first }, ...bridges] : bridges
  })
}

/** All persons that updates make. */
function foldPersons (updates: readonly ReplayedUpdate[]): WholePerson[] {
  const state = new PersonsState()
  foldUpdates(state, updates)
  const persons = new Map<PersonState, WholePerson>()
  for (const { distinctId, person } of state.newIds) {
    const final = finalPerson(person)
    const whole = persons.get(final) ?? { ...final, distinctIds: [] }
    whole.distinctIds.push(distinctId)
    persons.set(final, whole)
  }
  return [...persons.values()]
}

/** The number of the person that has an id. */
function groupsOf (persons: readonly { distinctIds: readonly string[] }[]): (distinctId: string) => number | undefined {
  const numbers = new Map(persons.flatMap(({ distinctIds }, n) => distinctIds.map((id) => [id, n])))
  return (id) => numbers.get(id)
}

function areSameGroups (persons: readonly WholePerson[], stored: readonly WholePerson[]): boolean {
  const textsOf = (all: readonly WholePerson[]): string[] =>
    all.map(({ distinctIds }) => JSON.stringify(distinctIds.toSorted())).sort()
  return isDeepStrictEqual(textsOf(persons), textsOf(stored))
}

/**
 * Gives what updates do not explain (an import of persons, an event that retention removed) to the person that keeps
 * the distinct id from which the uuid was computed.
 */
function keepUnexplained (person: WholePerson, before: readonly WholePerson[], after: readonly WholePerson[]): void {
  const [id = ''] = person.distinctIds
  const explained = before.find(({ distinctIds }) => distinctIds.includes(id))
  const parts = after.filter(({ distinctIds }) => distinctIds.some((each) => person.distinctIds.includes(each)))
    .sort((a, b) => b.distinctIds.length - a.distinctIds.length)
  const hasOrigin = ({ projectId, distinctIds }: WholePerson): boolean =>
    distinctIds.some((each) => personUuid(projectId, each) === person.uuid)
  const origin = parts.find(hasOrigin)
  const heir = origin ?? parts[0]
  if (explained === undefined || heir === undefined) return
  if (explained.uuid !== person.uuid && (origin !== undefined || !hasOrigin(person))) heir.uuid = person.uuid
  for (const name of new Set([...Object.keys(person.properties), ...Object.keys(explained.properties)])) {
    if (isDeepStrictEqual(person.properties[name], explained.properties[name])) continue
    if (Object.hasOwn(person.properties, name)) putProperty(heir.properties, name, person.properties[name])
    else delete heir.properties[name]
    const time = person.times?.get(name)
    if (time !== undefined) (heir.times ??= new Map()).set(name, time)
  }
  heir.createdAt = Math.min(heir.createdAt, person.createdAt < explained.createdAt ? person.createdAt : Infinity)
  if (person.isIdentified && !explained.isIdentified) heir.isIdentified = true
  if (!person.isIdentified && explained.isIdentified) for (const part of parts) part.isIdentified = false
}
