/** A message of DEAD_LETTER: its headers, what they say, and its content. */
import { cutText } from '../../engines/body/storable-text.ts'
import { decodeFrame } from './frame-codec.ts'
import { frameOf } from './frame-message.ts'
import { describeRows } from './native-block.ts'
import { type DeadLetterStage, HEADER } from './streams.ts'

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

const MAX_ERROR_CHARACTERS = 1000

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

/**
 * Reads the headers of a message.
 *
 * @param time  When the stream got it.
 */
export function readDeadLetter (id: number, subject: string, headers: Record<string, string>, time: Date): DeadLetter {
  const text = (name: keyof typeof DEAD_LETTER_HEADER): string | null => headers[DEAD_LETTER_HEADER[name]] ?? null
  const number = (value: string | null | undefined): number | null => value ? Number(value) : null
  const [, stage, reason] = subject.split('.')
  const event = text('event')
  return {
    id,
    stage: stage as DeadLetterStage,
    reason: reason ?? '',
    time: text('time') ?? time.toISOString(),
    error: text('error') ?? '',
    errorCode: text('errorCode'),
    subject: text('subject'),
    sequence: number(text('sequence')),
    project: number(text('project')),
    event: event === null ? null : decodeURIComponent(event),
    uuid: text('uuid'),
    rows: number(headers[HEADER.rows])
  }
}

/** The content of a body: rows of events, or JSON; null when it is neither. */
export async function decodeContent (body: Uint8Array, rows: number | null): Promise<unknown> {
  try {
    return rows === null
      ? JSON.parse(Buffer.from(body).toString())
      : describeRows(await decodeFrame(frameOf(body, rows)))
  } catch {
    // What cannot be decoded is shown as bytes.
    return null
  }
}
