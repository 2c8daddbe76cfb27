import { jetstream, JetStreamApiError } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { type DeadLetterStage, deadLetterSubject } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../nats/connect-nats.ts'
import { MillraceError } from '../../engines/errors.ts'
import { cutText } from '../../engines/body/storable-text.ts'

/**
 * Headers of a message of DEAD_LETTER. Its body is a message that could not be processed, or the part of it that could
 * not, in the form of that message, and the message's own headers travel with it unchanged. So a replay only has to
 * take these headers off and publish the rest where it came from.
 */
export const DEAD_LETTER_HEADER = {
  /** Where it failed. */
  stage: 'Millrace-Stage',
  /** Why: one of a short list of words per stage. */
  reason: 'Millrace-Reason',
  /** When it was dead-lettered, ISO 8601. */
  time: 'Millrace-Time',
  /** What the refusing side said, on one line, at most 1,000 characters. */
  error: 'Millrace-Error',
  /** Code of that error, such as ClickHouse's. */
  errorCode: 'Millrace-Error-Code',
  /** Subject to which a replay publishes. */
  subject: 'Millrace-Subject',
  /** Sequence of the message in its stream. */
  sequence: 'Millrace-Sequence',
  /** Project id, when the letter is about one project. */
  project: 'Millrace-Project',
  /** Name of the event, URI-encoded, when the letter is about one event. */
  event: 'Millrace-Event',
  /** Its uuid. */
  uuid: 'Millrace-Uuid'
} as const

export interface NewDeadLetter {
  stage: DeadLetterStage
  /** Lower case letters and underscores; part of the subject and label of metrics. */
  reason: string
  error: string
  errorCode?: string | number
  /** Subject and sequence of the message it comes from. */
  subject: string
  /** Absent: it was never in a stream. */
  sequence?: number
  project?: number
  event?: string
  uuid?: string
  /** Headers of the message it comes from. */
  headers: Readonly<Record<string, string>>
  body: Uint8Array
  /** The same for the same letter: dead-lettering it again within the stream's duplicate window leaves one. */
  id: string
}

/** One dead letter, without its body. */
export interface DeadLetter {
  /** Sequence in the dead-letter stream. */
  id: number
  stage: DeadLetterStage
  reason: string
  /** ISO 8601. */
  time: string
  error: string
  errorCode: string | null
  subject: string | null
  sequence: number | null
  project: number | null
  event: string | null
  uuid: string | null
  /** Rows in the body when it is a frame of events. */
  rows: number | null
}

/** Selects dead letters; an absent field selects all. */
export interface DeadLetterFilter {
  project?: number
  /** Name of the event; empty: those that are not about one event. */
  event?: string
  stage?: DeadLetterStage
  reason?: string
  /** Code of the error; empty: those without one. */
  errorCode?: string
  /** Dead-lettered at or after. */
  from?: Date
  /** Dead-lettered before. */
  to?: Date
}

/** JetStream API errors of a full stream: by bytes, by messages. */
export const STREAM_FULL: ReadonlySet<unknown> = new Set([10077, 10047])

const MAX_ERROR_CHARACTERS = 1000

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

/** The headers that say where a message failed, and why; each is one line. */
export function deadLetterHeaders (letter: Omit<NewDeadLetter, 'headers' | 'body' | 'id'>): Record<string, string> {
  const about: Record<keyof typeof DEAD_LETTER_HEADER, string | number | undefined> = {
    stage: letter.stage,
    reason: letter.reason,
    time: new Date().toISOString(),
    error: cutText(toLine(letter.error), MAX_ERROR_CHARACTERS),
    errorCode: letter.errorCode === undefined ? undefined : toLine(String(letter.errorCode)),
    subject: letter.subject,
    sequence: letter.sequence,
    project: letter.project,
    event: letter.event === undefined ? undefined : encodeURIComponent(letter.event),
    uuid: letter.uuid
  }
  return Object.fromEntries(Object.entries(about).flatMap(([key, value]) =>
    value === undefined ? [] : [[DEAD_LETTER_HEADER[key as keyof typeof DEAD_LETTER_HEADER], String(value)]]))
}

/** Blanks instead of line breaks and control characters, which would end a header. */
function toLine (text: string): string {
  // eslint-disable-next-line no-control-regex -- these are replaced
  return text.replaceAll(/[\s\u0000-\u001f\u007f]+/g, ' ')
}
