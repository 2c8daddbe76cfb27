import { type DeadLetterStage } from '../../schema/streams.ts'

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

/** What is to be dead-lettered. */
export interface NewDeadLetter {
  stage: DeadLetterStage
  /** Lower case letters and underscores; part of the subject and label of metrics. */
  reason: string
  error: string
  errorCode?: string | number
  /** Subject and sequence of the message it comes from. */
  subject: string
  sequence: number
  project?: number
  event?: string
  uuid?: string
  /** Headers of the message it comes from. */
  headers: Readonly<Record<string, string>>
  body: Uint8Array
  /** The same letter gets the same id: setting it aside a second time after a crash leaves one. */
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

/** Which dead letters are meant; what is absent does not matter. */
export interface DeadLetterFilter {
  project?: number
  event?: string
  stage?: DeadLetterStage
  reason?: string
  /** Dead-lettered at or after. */
  from?: Date
  /** Dead-lettered before. */
  to?: Date
}
