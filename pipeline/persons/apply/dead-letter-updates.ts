import { hash } from 'node:crypto'
import { type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { publishDeadLetter } from '../../../platform/dead-letters/publish-dead-letter.ts'
import { personsSubject } from '../../../schema/streams.ts'
import { type PersonsBatch } from './apply-batch.ts'
import { type RefusedUpdate } from '../persons-outcome.ts'

/**
 * Sets refused updates of a batch aside; resolves when the dead-letter stream has all of them.
 *
 * The id of a letter follows from its content, so that a transaction tried again does not leave a second one.
 *
 * @throws when that stream is unavailable or full: then the partition waits, rather than forget what it refused.
 */
export async function deadLetterUpdates (
  connection: NatsConnection, batch: PersonsBatch, refused: readonly RefusedUpdate[]
): Promise<void> {
  for (const update of refused) {
    const { reason, detail, code, payload, projectId, uuid } = update
    await publishDeadLetter(connection, {
      stage: 'persons',
      reason,
      error: detail,
      ...(code !== undefined && { errorCode: code }),
      subject: personsSubject(batch.partition),
      sequence: findSequence(batch, update),
      ...(projectId !== undefined && { project: projectId }),
      ...(uuid !== undefined && { uuid }),
      headers: {},
      body: payload,
      id: `persons:${reason}:${hash('sha1', payload)}`
    })
  }
}

function findSequence ({ messages }: PersonsBatch, refused: RefusedUpdate): number {
  const origin = messages.find((message) =>
    message.refused.includes(refused) || message.updates.some((update) => update.uuid === refused.uuid))
  return (origin ?? messages[0])?.sequence ?? 0
}
