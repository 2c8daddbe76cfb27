import { personUuid } from '../../../schema/wire/identity.ts'
import { isIllegalDistinctId } from '../merge-persons.ts'
import type { Repair, ReplayedUpdate, WholePerson } from '../replay-persons.ts'

/** A letter is an update that is refused where it stands, and replayed after all other steps. */
export type Step = { kind: 'update', update: ReplayedUpdate } | { kind: 'letter', update: ReplayedUpdate } | Repair

/** What happened to a person, in order: something that an id did, or another person that was merged into it. */
type Entry =
  | { id: string, update: ReplayedUpdate | null, timestamp: number, identifies: boolean }
  | { absorbed: Entry[] }

/**
 * What a sequence of updates and repairs makes of persons, as plainly as it can be said: each person is the tree of
 * what happened to it. An undone merge is left out from the beginning, and all that follows is decided anew; a split
 * cuts the tree into those of its parts. A replayed letter joins no ids that were parted after it.
 */
export function replayModel (steps: readonly Step[], projectId = 1): WholePerson[] {
  const undone = new Set(steps.map((step) => step.kind === 'undo' ? step.uuid : null))
  let persons: Entry[][] = []
  const find = (id: string): Entry[] | undefined => persons.find((person) => idsOf(person).includes(id))
  const replays = steps.flatMap((step, i) => step.kind === 'letter' ? [{ kind: 'replay' as const, update: step.update, later: steps.slice(i) }] : [])
  for (const step of [...steps, ...replays]) {
    if (step.kind === 'split') {
      const cells = [...step.parts, persons.flatMap(idsOf).filter((id) => !step.parts.flat().includes(id))]
      persons = persons.flatMap((person) => cells.map((ids) => cut(person, ids)).filter((part) => part.length > 0))
    } else if (step.kind === 'update' || step.kind === 'replay') {
      const { update } = step
      const isUndone = undone.has(update.uuid)
      let identifies = update.kind === 'person' ? update.identify === true : isUndone && update.how === 'identify'
      if (update.kind === 'merge' && !isUndone) {
        identifies = step.kind === 'replay' && isParted(update, step.later) ? update.identify !== false : merge(update)
      }
      let person = find(update.distinctId)
      if (person === undefined) persons.push(person = [])
      person.push({ id: update.distinctId, update, timestamp: update.timestamp, identifies })
    }
  }
  return persons.map((person) => evaluate(person, projectId))

  /** @returns whether the person of the distinct id counts as identified. */
  function merge (update: ReplayedUpdate & { kind: 'merge' }): boolean {
    const { distinctId: id, otherDistinctId: other, timestamp } = update
    if (id === other || isIllegalDistinctId(id) || isIllegalDistinctId(other)) return false
    const target = find(id)
    const source = find(other)
    if (target !== undefined && source !== undefined && target !== source) {
      if (evaluate(source).isIdentified && update.how !== 'force') return true
      persons = persons.filter((person) => person !== source)
      target.push({ absorbed: source })
      return true
    }
    if (source === undefined) {
      let person = target
      if (person === undefined) persons.push(person = [{ id, update: null, timestamp, identifies: false }])
      person.push({ id: other, update: null, timestamp, identifies: false })
    } else if (target === undefined) {
      source.push({ id, update: null, timestamp, identifies: false })
    }
    return update.identify !== false || (target !== undefined && target !== source)
  }
}

function isParted ({ distinctId, otherDistinctId }: ReplayedUpdate & { kind: 'merge' }, later: readonly Step[]): boolean {
  return ![distinctId, otherDistinctId].some(isIllegalDistinctId) && later.some((step) =>
    step.kind === 'split' && step.parts.some((part) => part.includes(distinctId) !== part.includes(otherDistinctId)))
}

function idsOf (person: readonly Entry[]): string[] {
  return [...new Set(person.flatMap((entry) => 'id' in entry ? [entry.id] : idsOf(entry.absorbed)))]
}

/** A person with some of its ids only. */
function cut (person: readonly Entry[], ids: readonly string[]): Entry[] {
  const left: Entry[] = []
  for (const entry of person) {
    if ('id' in entry) {
      if (ids.includes(entry.id)) left.push(entry)
      continue
    }
    const absorbed = cut(entry.absorbed, ids)
    if (absorbed.length > 0) left.push(...left.length > 0 ? [{ absorbed }] : absorbed)
  }
  return left
}

function evaluate (person: readonly Entry[], projectId = 1): WholePerson {
  let whole: WholePerson | undefined
  for (const entry of person) {
    if ('absorbed' in entry) {
      const other = evaluate(entry.absorbed, projectId)
      if (whole === undefined) throw new Error('a person begins with an id')
      whole.properties = { ...other.properties, ...whole.properties }
      whole.createdAt = Math.min(whole.createdAt, other.createdAt)
      whole.distinctIds.push(...other.distinctIds)
      continue
    }
    const { id, update, timestamp, identifies } = entry
    whole ??= {
      projectId, uuid: personUuid(projectId, id), distinctIds: [], properties: {}, isIdentified: false,
      createdAt: timestamp
    }
    whole.distinctIds = [...new Set([...whole.distinctIds, id])]
    whole.isIdentified ||= identifies
    if (update === null) continue
    const { set = {}, setOnce = {}, unset = [] } = update
    const isBlank = (name: string, value: unknown): boolean =>
      name.startsWith('$initial_') && (value === null || value === '')
    const first = Object.entries(setOnce).filter(([name, value]) => !isBlank(name, value))
    const names = first.map(([name]) => name)
    const before = Object.entries(whole.properties)
      .filter(([name, value]) => !(isBlank(name, value) && names.includes(name)))
    const all = { ...Object.fromEntries(first), ...Object.fromEntries(before), ...set }
    whole.properties = Object.fromEntries(Object.entries(all).filter(([name]) => !unset.includes(name)))
  }
  if (whole === undefined) throw new Error('a person has an id')
  return whole
}
