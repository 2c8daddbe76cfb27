import { hash } from 'node:crypto'
import type { HasLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import { DeadLettersFullError, publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { personsSubject } from '../../schema/wire/streams.ts'
import type { PersonsBatch } from './persons-message.ts'
import type { RefusedUpdate } from './persons-outcome.ts'

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
