import { hash } from 'node:crypto'
import { readDeadLetterFill } from '../../platform/dead-letters/read-dead-letters.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { PersonsUpdate } from '../../schema/persons-update.ts'
import { personsSubject } from '../../schema/streams.ts'
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
  /** Project and uuid of the event; absent when the message has no update. */
  projectId?: number
  uuid?: string
}

type PersonsWarningReason = 'illegal_distinct_id' | 'already_identified' | 'properties_too_large' | 'too_many_group_types'

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
 * Anybody with the public key can have changes refused that are too large. Of a dead-letter stream that is as full as
 * this they get no more, or all persons would wait for somebody who empties it. The alert about it fires before.
 */
const MAX_FILL_BY_TOO_LARGE = 0.9

/**
 * Dead-letters refused updates of a batch, in their order; resolves when the dead-letter stream has stored all of them.
 * Those that are too large are left out while it is nearly full: the ingestion warning about each is all that remains.
 *
 * The id of a dead letter is a hash of its content, so a repeated transaction does not store it twice.
 *
 * @throws when that stream is unavailable or full: the partition then waits, rather than lose a refused update. Some
 *   letters may be stored.
 */
export async function deadLetterUpdates (
  connection: NatsConnection, batch: PersonsBatch, refused: readonly RefusedUpdate[]
): Promise<void> {
  const sequenceOf = findSequences(batch)
  for (let at = 0; at < refused.length; at += LETTERS_AT_ONCE) {
    const letters = await chooseLetters(connection, refused.slice(at, at + LETTERS_AT_ONCE))
    await Promise.all(letters.map(async (update) => {
      const { reason, detail, code, payload, projectId, uuid } = update
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
    }))
  }
}

async function chooseLetters (
  connection: NatsConnection, refused: readonly RefusedUpdate[]
): Promise<readonly RefusedUpdate[]> {
  if (refused.every(({ reason }) => reason !== 'properties_too_large')) return refused
  const { bytes, maxBytes } = await readDeadLetterFill(connection)
  let room = maxBytes * MAX_FILL_BY_TOO_LARGE - bytes
  return refused.filter(({ reason, payload }) => reason !== 'properties_too_large' || (room -= payload.length) >= 0)
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
