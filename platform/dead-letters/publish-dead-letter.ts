import { jetstream, JetStreamApiError } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { deadLetterSubject } from '../../schema/streams.ts'
import { type NatsConnection } from '../nats/connect-nats.ts'
import { MillraceError } from '../errors.ts'
import { DEAD_LETTER_HEADER, type NewDeadLetter } from './dead-letter.ts'

/** JetStream API errors of a stream that holds as much as it may: bytes, messages. */
const STREAM_FULL = new Set([10077, 10047])

const MAX_ERROR_CHARACTERS = 1000

/**
 * The dead-letter stream is full. Nothing is discarded: anyone who has something to dead-lettered waits, and says so.
 */
export class DeadLettersFullError extends MillraceError {
  constructor (cause: unknown) {
    super('MILLRACE_DEAD_LETTERS_FULL', 'the dead-letter stream is full: replay or purge letters, or raise its limit', {
      action: 'retry', cause
    })
    this.name = 'DeadLettersFullError'
  }
}

/**
 * Sets a message, or a part of it, aside. Resolves when the dead-letter stream has it; only then the original may be
 * acknowledged.
 *
 * @throws {DeadLettersFullError} when the stream is full; another error when it does not answer.
 */
export async function publishDeadLetter (connection: NatsConnection, letter: NewDeadLetter): Promise<void> {
  const message = headers()
  for (const [name, value] of Object.entries(letter.headers)) {
    if (!name.startsWith('Nats-')) message.set(name, value)
  }
  const about: Record<keyof typeof DEAD_LETTER_HEADER, string | number | undefined> = {
    stage: letter.stage,
    reason: letter.reason,
    time: new Date().toISOString(),
    error: letter.error.replaceAll(/\s+/g, ' ').slice(0, MAX_ERROR_CHARACTERS),
    errorCode: letter.errorCode,
    subject: letter.subject,
    sequence: letter.sequence,
    project: letter.project,
    event: letter.event === undefined ? undefined : encodeURIComponent(letter.event),
    uuid: letter.uuid
  }
  for (const [key, value] of Object.entries(about)) {
    if (value !== undefined) message.set(DEAD_LETTER_HEADER[key as keyof typeof DEAD_LETTER_HEADER], String(value))
  }
  try {
    await jetstream(connection).publish(deadLetterSubject(letter.stage, letter.reason), letter.body, {
      msgID: `dead:${letter.id}`, headers: message
    })
  } catch (error) {
    if (error instanceof JetStreamApiError && STREAM_FULL.has(error.code)) throw new DeadLettersFullError(error)
    throw error
  }
}
