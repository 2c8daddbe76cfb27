import { type StoredFacts } from '../../flags/subject.ts'

/** What a request wants to know about its subject from the store of persons and groups. */
export interface PersonQuery {
  projectId: number
  distinctId: string
  /** Group keys by group type index. */
  groups: ReadonlyMap<number, string>
  /** Static cohorts that flags ask for. */
  cohortIds: readonly number[]
  /** Some flag has experience continuity. */
  needsHashKeys: boolean
}

/** A hash key to keep for somebody who has just been identified. */
export interface HashKeyRecord {
  projectId: number
  distinctId: string
  /** The id before the user was identified. */
  hashKey: string
  flagKeys: readonly string[]
}

/** Where the flags read persons and groups. Both calls reject when the store is unavailable. */
export interface PersonReader {
  /** Everything about a subject at once. A person or group that does not exist has no properties. */
  readForFlags: (question: PersonQuery) => Cancellable<StoredFacts>
  /** Keeps hash keys that do not exist yet. Resolves to those that count now, by flag key: the first one stays. */
  keepHashKeys: (note: HashKeyRecord) => Cancellable<ReadonlyMap<string, string>>
}

export interface Cancellable<T> {
  answer: Promise<T>
  cancel: () => void
}
