import { jetstream, JetStreamApiError } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { deadLetterHeaders, type NewDeadLetter } from '../../schema/wire/dead-letter-message.ts'
import { deadLetterSubject } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../nats/connect-nats.ts'
import { MillraceError } from '../../engines/errors.ts'

/** JetStream API errors of a full stream: by bytes, by messages. */
export const STREAM_FULL: ReadonlySet<unknown> = new Set([10077, 10047])

/** The dead-letter stream is full. Nothing is discarded: the caller waits, logs it and tries again. */
export class DeadLettersFullError extends MillraceError {
  constructor (cause: unknown) {
    super('MILLRACE_DEAD_LETTERS_FULL', 'the dead-letter stream is full: replay or purge letters, or raise its limit', {
      action: 'retry', cause
    })
    this.name = 'DeadLettersFullError'
  }
}

/**
 * Dead-letters a message, or a part of it. Resolves when the dead-letter stream has it; only then the original may be
 * acknowledged.
 *
 * @throws {DeadLettersFullError} when the stream is full; another error when it does not answer.
 */
export async function publishDeadLetter (connection: NatsConnection, letter: NewDeadLetter): Promise<void> {
  const message = headers()
  for (const [name, value] of Object.entries(letter.headers)) {
    if (!name.startsWith('Nats-')) message.set(name, value)
  }
  for (const [name, value] of Object.entries(deadLetterHeaders(letter))) message.set(name, value)
  const subject = deadLetterSubject(letter.stage, letter.reason, letter.project, letter.body.length)
  try {
    await jetstream(connection).publish(subject, letter.body, { msgID: `dead:${letter.id}`, headers: message })
  } catch (error) {
    if (error instanceof JetStreamApiError && STREAM_FULL.has(error.code)) throw new DeadLettersFullError(error)
    throw error
  }
}
