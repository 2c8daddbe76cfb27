import { hash } from 'node:crypto'
import type { HasLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import { DeadLettersFullError, publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { personsSubject } from '../../schema/wire/streams.ts'
import type { PersonsBatch } from './apply-batch.ts'

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
  /** What is wrong, for the operator; never a property value. */
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
 * Letters on their way at a time. A batch may refuse 15,000 updates, and Postgres ends a transaction that waits longer
 * than 30 s for their answers one by one, again and again.
 */
const LETTERS_AT_ONCE = 64

/**
 * Dead-letters refused updates of a batch, in their order; resolves when the dead-letter stream has stored all of them.
 * Those for which it has no room (`letter-room.ts`) are left out: nobody else's updates wait until somebody empties it.
 * Of each the ingestion warning remains, with the uuid of its event, which is stored.
 *
 * The id of a dead letter is a hash of its content, so a repeated transaction does not store it twice.
 *
 * @returns those that are left out.
 * @throws when that stream is unavailable: NATS is, and the partition waits. Some letters may be stored.
 */
export async function deadLetterUpdates (
  { connection, hasRoom }: { connection: NatsConnection, hasRoom: HasLetterRoom },
  batch: PersonsBatch, refused: readonly RefusedUpdate[]
): Promise<RefusedUpdate[]> {
  const sequenceOf = findSequences(batch)
  const leftOut: RefusedUpdate[] = []
  for (let at = 0; at < refused.length; at += LETTERS_AT_ONCE) {
    await Promise.all(refused.slice(at, at + LETTERS_AT_ONCE).map(async (update) => {
      if (!await keep(update)) leftOut.push(update)
    }))
  }
  return leftOut

  async function keep (update: RefusedUpdate): Promise<boolean> {
    const { reason, detail, code, payload, projectId, uuid } = update
    if (!await hasRoom(projectId, payload.length)) return false
    try {
      await publishDeadLetter(connection, {
        stage: 'persons',
        reason,
        error: detail,
        ...(code !== undefined && { errorCode: code }),
        subject: personsSubject(batch.partition),
        sequence: sequenceOf(update),
        ...(projectId !== undefined && { project: projectId }),
        ...(uuid !== undefined && { uuid }),
        headers: {},
        body: payload,
        id: `persons:${reason}:${hash('sha1', payload)}`
      })
      return true
    } catch (error) {
      if (error instanceof DeadLettersFullError) return false
      throw error
    }
  }
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

/** Tells in which message an update came: the first that has its event, since an SDK may have sent it again. */
function findSequences ({ messages }: PersonsBatch): (refused: RefusedUpdate) => number {
  const byUuid = new Map<string, number>()
  const byItem = new Map<RefusedUpdate, number>()
  for (const { sequence, updates, refused } of messages) {
    for (const item of refused) byItem.set(item, sequence)
    for (const { uuid } of updates) if (!byUuid.has(uuid)) byUuid.set(uuid, sequence)
  }
  return (refused) => byItem.get(refused) ?? byUuid.get(refused.uuid ?? '') ?? messages[0]?.sequence ?? 0
}
