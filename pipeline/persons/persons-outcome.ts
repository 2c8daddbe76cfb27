/** What became of updates: merges, refusals, warnings. */
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'

/** How a merge ended; label of the metric. */
export const MERGE_OUTCOMES = [
  /** Both ids had persons, which are now one. */
  'merged',
  /** One id had a person, to which the other one now belongs. */
  'added',
  /** Neither had a person: they share a new one. */
  'created',
  /** Both already had the same person. */
  'same',
  /** Refused: an id is one that clients send when they have none. */
  'illegal_distinct_id',
  /** Refused: the person to be merged away is identified. */
  'already_identified'
] as const

export type MergeOutcome = (typeof MERGE_OUTCOMES)[number]

/** Why an update, or a part of it, was dead-lettered; part of the subject and label of the metric. */
export const PERSONS_REFUSALS = [
  /** The message is not a JSON array. Its dead letter has the bytes as they arrived. */
  'invalid_json',
  /** The update does not have the shape of a `PersonsUpdate`. */
  'invalid_update',
  /** The project was deleted. */
  'unknown_project',
  /** The properties would be larger than `MAX_PROPERTIES_BYTES`; the rest of the update was applied. */
  'properties_too_large',
  /** Postgres or a bug refuses it each time. */
  'not_applicable'
] as const

export type PersonsRefusal = (typeof PERSONS_REFUSALS)[number]

/** An update that is to be dead-lettered, or what came instead of one. */
export interface RefusedUpdate {
  reason: PersonsRefusal
  /** Error for the operator; never a property value. */
  detail: string
  /** SQLSTATE, when Postgres refused it. */
  code?: string
  /** A message of PERSONS that a replay can publish. */
  payload: Uint8Array
  /** Project and uuid of the event; absent when the message or its item names none. */
  projectId?: number
  uuid?: string
}

type PersonsWarningReason =
  'illegal_distinct_id' | 'already_identified' | 'properties_too_large' | 'too_many_group_types' | 'update_refused'

/** Something that an event asked for and that was not done; counted by `recordWarnings`. */
export interface PersonsWarning {
  projectId: number
  reason: PersonsWarningReason
  example: Record<string, string>
}

/** What became of a batch, besides the changes. */
export interface PersonsOutcome {
  merges: MergeOutcome[]
  refused: RefusedUpdate[]
  warnings: PersonsWarning[]
}

/** Refuses an update, in the form of a message of PERSONS that can be replayed. */
export function refuseUpdate (update: PersonsUpdate, reason: PersonsRefusal, detail: string): RefusedUpdate {
  const { projectId, uuid } = update
  return { reason, detail, payload: Buffer.from(JSON.stringify([update])), projectId, uuid }
}

/**
 * The ingestion warnings about refused updates. Those that are too large have theirs already, and nobody reads what a
 * deleted project is warned of.
 */
export function warnOfRefused (refused: readonly RefusedUpdate[]): PersonsWarning[] {
  return refused.flatMap(({ reason, projectId, uuid, detail }) =>
    projectId === undefined || reason === 'properties_too_large' || reason === 'unknown_project'
      ? []
      : [{ projectId, reason: 'update_refused', example: { ...uuid !== undefined && { uuid }, detail } }])
}
