import { personUuid } from '../../schema/wire/identity.ts'
import type { MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'

/** Properties of a person or a group by name; values as JSON has them. */
export type Properties = Record<string, unknown>

/** A person or a group. */
export interface PropertyOwner {
  properties: Properties
  /** Bytes of the properties as JSON: an upper bound, which saves measuring them; exact once that was needed. */
  sizeBound: number
  /** `sizeBound` is exact, and stays so; see `measureOwner`. */
  isMeasured: boolean
  /** Differs from the stored person. */
  changed: boolean
  /**
   * Of a person, by name: when an event set the value, epoch milliseconds, below zero of a live event. As far as they
   * are known; see `property-times.ts`.
   */
  times?: Map<string, number>
  /** Its times differ from the stored ones. */
  isRetimed?: boolean
}

/** A person while a batch is applied in memory. */
export interface PersonState extends PropertyOwner {
  readonly projectId: number
  /** Primary key in Postgres; null for a person that is not stored yet. */
  id: number | null
  readonly uuid: string
  isIdentified: boolean
  /** Epoch milliseconds. */
  createdAt: number
  /** Set when the person was merged into another, which may be merged on in turn; see `finalPerson`. */
  mergedInto: PersonState | null
  /** The persons merged into this one itself in this batch, in the order of the merges; see `absorbedPersons`. */
  absorbed: PersonState[]
}

/** A group while a batch is applied in memory. */
interface GroupState extends PropertyOwner {
  readonly projectId: number
  readonly groupType: string
  readonly groupTypeIndex: number
  readonly groupKey: string
  /** Epoch milliseconds. */
  readonly createdAt: number
}

/** A distinct id that had no person before this batch. */
export interface NewDistinctId {
  projectId: number
  distinctId: string
  /** Its person at that update; see `finalPerson` for the person it has in the end. */
  person: PersonState
}

/**
 * The persons and groups that a batch touches, in memory: loaded by load-persons.ts, changed update by update by
 * fold-updates.ts, stored by write-persons.ts.
 */
export class PersonsState {
  readonly persons: PersonState[] = []
  readonly newIds: NewDistinctId[] = []
  readonly groups: GroupState[] = []
  readonly newGroupTypes: { projectId: number, groupType: string, groupTypeIndex: number }[] = []
  readonly #maxGroupTypes: number
  readonly #personByDistinctId = new Map<string, PersonState>()
  readonly #groupByKey = new Map<string, GroupState>()
  readonly #groupTypeIndex = new Map<string, number>()
  readonly #nextGroupTypeIndex = new Map<number, number>()

  /** @param maxGroupTypes  Maximum group types of a project; stored ones beyond it stay. */
  constructor (maxGroupTypes = Infinity) {
    this.#maxGroupTypes = maxGroupTypes
  }

  findPerson (projectId: number, distinctId: string): PersonState | null {
    const person = this.#personByDistinctId.get(`${projectId}:${distinctId}`)
    return person === undefined ? null : finalPerson(person)
  }

  /** Adds a stored person under one of its distinct ids. */
  loadPerson (distinctId: string, person: PersonState): void {
    this.#personByDistinctId.set(`${person.projectId}:${distinctId}`, person)
  }

  /** Assigns a distinct id that has no person. */
  assignDistinctId (distinctId: string, person: PersonState): void {
    this.#personByDistinctId.set(`${person.projectId}:${distinctId}`, person)
    this.newIds.push({ projectId: person.projectId, distinctId, person })
  }

  /** Adds a stored group type. */
  loadGroupType (projectId: number, groupType: string, index: number): void {
    this.#groupTypeIndex.set(`${projectId}:${groupType}`, index)
  }

  /** How many group types a project has stored: the index of its next new one. */
  loadGroupTypeCount (projectId: number, count: number): void {
    this.#nextGroupTypeIndex.set(projectId, count)
  }

  /** The index of a group type; a new type gets the next one, or null when its project has too many. */
  indexGroupType (projectId: number, groupType: string): number | null {
    const key = `${projectId}:${groupType}`
    const known = this.#groupTypeIndex.get(key)
    if (known !== undefined) return known
    const groupTypeIndex = this.#nextGroupTypeIndex.get(projectId) ?? 0
    if (groupTypeIndex >= this.#maxGroupTypes) return null
    this.#nextGroupTypeIndex.set(projectId, groupTypeIndex + 1)
    this.#groupTypeIndex.set(key, groupTypeIndex)
    this.newGroupTypes.push({ projectId, groupType, groupTypeIndex })
    return groupTypeIndex
  }

  findGroup (projectId: number, groupTypeIndex: number, groupKey: string): GroupState | null {
    return this.#groupByKey.get(`${projectId}:${groupTypeIndex}:${groupKey}`) ?? null
  }

  /** Adds a group, stored or new. */
  addGroup (group: GroupState): void {
    this.groups.push(group)
    this.#groupByKey.set(`${group.projectId}:${group.groupTypeIndex}:${group.groupKey}`, group)
  }
}

/** Sets a property. A plain assignment to `__proto__` would set the prototype instead. */
export function putProperty (properties: Properties, name: string, value: unknown): void {
  if (name === '__proto__') {
    Object.defineProperty(properties, name, { value, writable: true, enumerable: true, configurable: true })
  } else {
    properties[name] = value
  }
}

/**
 * The person after all merges of the batch.
 *
 * Leads all persons on the way straight to it: merges may make a chain of thousands, which each update of its first
 * person would follow.
 */
export function finalPerson (person: PersonState): PersonState {
  let final = person
  while (final.mergedInto !== null) final = final.mergedInto
  for (let next = person.mergedInto; next !== null && next !== final; next = person.mergedInto) {
    person.mergedInto = final
    person = next
  }
  return final
}

/** All persons merged into this one in this batch: each is followed by those that were merged into it before. */
export function * absorbedPersons (person: PersonState): Generator<PersonState> {
  // A list instead of recursion: a chain of merges is deeper than the stack.
  const waiting = person.absorbed.toReversed()
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    yield next
    for (let i = next.absorbed.length - 1; i >= 0; i--) waiting.push(next.absorbed[i] as PersonState)
  }
}

/** Adds a new person whose first distinct id is the update's. */
export function createPerson (state: PersonsState, update: PersonUpdate | MergeUpdate): PersonState {
  const person: PersonState = {
    projectId: update.projectId, id: null, uuid: personUuid(update.projectId, update.distinctId),
    properties: {}, sizeBound: 2, isMeasured: false, isIdentified: false,
    createdAt: Math.floor(update.timestamp), changed: true, mergedInto: null, absorbed: []
  }
  state.persons.push(person)
  state.assignDistinctId(update.distinctId, person)
  return person
}

/** Marks a person as identified: only `$merge_dangerously` can still merge it into another. */
export function markIdentified (person: PersonState): void {
  if (person.isIdentified) return
  person.isIdentified = true
  person.changed = true
}
