import { type MergeUpdate, type PersonUpdate } from '../../schema/persons-update.ts'
import { personUuid } from '../../platform/persons/person-ids.ts'

/** Properties of a person or a group by name; values as JSON has them. */
export type Properties = Record<string, unknown>

/** Anyone who has properties. */
export interface PropertyOwner {
  properties: Properties
  /** At least as many bytes as the properties have as JSON text; saves measuring them on each change. */
  sizeBound: number
  /** Differs from what is stored. */
  changed: boolean
}

/** A person while a batch is applied in memory. */
export interface PersonState extends PropertyOwner {
  readonly projectId: number
  /** Key in Postgres; null as long as the person exists in memory only. */
  id: number | null
  readonly uuid: string
  isIdentified: boolean
  /** Epoch milliseconds. */
  createdAt: number
  /** Set when the person was merged away: who has its ids now (perhaps merged on itself). */
  mergedInto: PersonState | null
  /**
   * Everybody merged into this person in this batch, also by way of others. Where two have a flag override for the
   * same flag, the earlier in this list wins, as it would if the merges had been stored one by one.
   */
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
  /** Its person when it was met; follow `mergedInto` for the person it has in the end. */
  person: PersonState
}

export interface NewGroupType {
  projectId: number
  groupType: string
  groupTypeIndex: number
}

/** The person after all merges of the batch. */
export function finalPerson (person: PersonState): PersonState {
  while (person.mergedInto !== null) person = person.mergedInto
  return person
}

/**
 * What is known of the persons and groups that a batch touches: first as loaded, then changed update by update,
 * finally written. Nothing in it is read from or written to a database.
 */
export class PersonsState {
  readonly persons: PersonState[] = []
  readonly newIds: NewDistinctId[] = []
  readonly groups: GroupState[] = []
  readonly newGroupTypes: NewGroupType[] = []
  readonly #maxGroupTypes: number
  readonly #personByDistinctId = new Map<string, PersonState>()
  readonly #groupByKey = new Map<string, GroupState>()
  readonly #groupTypeIndex = new Map<string, number>()
  readonly #nextGroupTypeIndex = new Map<number, number>()

  /** @param maxGroupTypes  Of a project; those that are stored already stay beyond it. */
  constructor (maxGroupTypes = Infinity) {
    this.#maxGroupTypes = maxGroupTypes
  }

  findPerson (projectId: number, distinctId: string): PersonState | null {
    const person = this.#personByDistinctId.get(`${projectId}:${distinctId}`)
    return person === undefined ? null : finalPerson(person)
  }

  /** Takes in a stored person under one of its distinct ids. */
  loadPerson (distinctId: string, person: PersonState): void {
    this.#personByDistinctId.set(`${person.projectId}:${distinctId}`, person)
  }

  addPerson (person: PersonState): void {
    this.persons.push(person)
  }

  /** Gives a distinct id without person to a person. */
  assignDistinctId (distinctId: string, person: PersonState): void {
    this.#personByDistinctId.set(`${person.projectId}:${distinctId}`, person)
    this.newIds.push({ projectId: person.projectId, distinctId, person })
  }

  /** Takes in a stored group type; the next new one of its project gets a higher index than all loaded ones. */
  loadGroupType (projectId: number, groupType: string, index: number): void {
    this.#groupTypeIndex.set(`${projectId}:${groupType}`, index)
  }

  /** Tells how many group types a project has stored. */
  loadGroupTypeCount (projectId: number, count: number): void {
    this.#nextGroupTypeIndex.set(projectId, count)
  }

  /** The index of a group type, new by order of appearance when it has none; null when its project has too many. */
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

  /** Takes in a group, stored or new. */
  addGroup (group: GroupState): void {
    this.groups.push(group)
    this.#groupByKey.set(`${group.projectId}:${group.groupTypeIndex}:${group.groupKey}`, group)
  }
}

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
