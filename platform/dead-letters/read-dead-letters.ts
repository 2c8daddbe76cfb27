import { DeliverPolicy, jetstream, jetstreamManager, type JsMsg } from '@nats-io/jetstream'
import type { MsgHdrs } from '@nats-io/transport-node'
import { DEAD_LETTER_STREAM, type DeadLetterStage, HEADER } from '../../schema/wire/streams.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import type { NatsConnection } from '../nats/connect-nats.ts'
import { readStreamInfo } from '../nats/stream-info.ts'
import { decodeFrame } from '../../schema/wire/frame-codec.ts'
import { describeRows } from '../../schema/wire/native-block.ts'
import { DEAD_LETTER_HEADER, type DeadLetter, type DeadLetterFilter } from '../../schema/wire/dead-letter-headers.ts'

export interface ScanOptions extends DeadLetterFilter {
  /** Begin with this id. */
  fromId?: number
  /** Bodies are not read unless asked for. */
  withBodies?: boolean
}

/** A dead letter as it was read from the stream. */
export interface ScannedDeadLetter {
  letter: DeadLetter
  /** All headers, those of the original message included. */
  headers: Record<string, string>
  body: Uint8Array
}

export interface ListOptions extends Omit<ScanOptions, 'withBodies'> {
  /** Maximum letters. */
  limit?: number
  /** Letters to skip first. */
  offset?: number
}

export interface OpenedDeadLetter extends DeadLetter {
  /** Headers of the original message and of the letter. */
  headers: Record<string, string>
  /** The body as it came, base64. */
  bodyBase64: string
  /** The body decoded: rows of events, or JSON; null when it is neither, which may be why it is here. */
  content: unknown
}

/** A scan fails after this long without an answer, in milliseconds. */
const SCAN_TIMEOUT_MS = 10_000

/**
 * Reads the dead letters that match, oldest first, up to the newest one at the start of the scan. Stage, reason and
 * time are filtered by the server, project and event here.
 */
export async function * scanDeadLetters (
  connection: NatsConnection, options: ScanOptions = {}
): AsyncGenerator<ScannedDeadLetter> {
  const subject = `dead.${options.stage ?? '*'}.${options.reason ?? '*'}`
  const { state: { last_seq: newest } } = await readStreamInfo(await jetstreamManager(connection), DEAD_LETTER_STREAM)
  if (newest < (options.fromId ?? 1)) return
  const consumer = await jetstream(connection).consumers.get(DEAD_LETTER_STREAM, {
    filter_subjects: [`${subject}.>`],
    headers_only: options.withBodies !== true,
    ...startOf(options)
  })
  try {
    let left = (await consumer.info()).num_pending
    while (left > 0) {
      const messages = await consumer.fetch({ max_messages: Math.min(left, 500), expires: SCAN_TIMEOUT_MS })
      let got = 0
      for await (const message of messages) {
        got++
        left = message.info.pending
        if (message.seq > newest) return
        const scanned = readScanned(message)
        if (matches(scanned.letter, options)) yield scanned
      }
      // Another replay or purge may have removed what was left: letters that are gone never come.
      if (left > 0) left = (await consumer.info()).num_pending
      if (got === 0 && left > 0) throw new Error(`the dead-letter stream did not answer in ${SCAN_TIMEOUT_MS} ms`)
    }
  } finally {
    // The server would keep it for five minutes, and takes no new ones beyond a limit. If it cannot be asked, it does.
    await consumer.delete().catch(() => false)
  }
}

/** Lists matching dead letters, oldest first. For a page of an API, see `count` of `countDeadLetters`. */
export async function listDeadLetters (connection: NatsConnection, options: ListOptions = {}): Promise<DeadLetter[]> {
  const { limit = Infinity, offset = 0 } = options
  const letters: DeadLetter[] = []
  let position = 0
  if (limit <= 0) return letters
  for await (const { letter } of scanDeadLetters(connection, options)) {
    if (position++ < offset) continue
    letters.push(letter)
    if (letters.length >= limit) break
  }
  return letters
}

export async function countDeadLetters (connection: NatsConnection, filter: DeadLetterFilter = {}): Promise<number> {
  const letters = scanDeadLetters(connection, filter)
  let count = 0
  while ((await letters.next()).done !== true) count++
  return count
}

/** Reads one dead letter with its body; null if it does not exist. */
export async function readDeadLetterById (connection: NatsConnection, id: number): Promise<OpenedDeadLetter | null> {
  const message = await (await jetstreamManager(connection)).streams.getMessage(DEAD_LETTER_STREAM, { seq: id })
  if (message === null) return null
  const headers = readHeaders(message.header)
  const letter = readDeadLetter(id, message.subject, headers, message.time)
  return {
    ...letter,
    headers,
    bodyBase64: Buffer.from(message.data).toString('base64'),
    content: await decodeContent(message.data, letter.rows)
  }
}

function startOf ({ fromId, from }: ScanOptions): object {
  if (fromId !== undefined) return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: fromId }
  return from === undefined ? {} : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: from.toISOString() }
}

function matches (letter: DeadLetter, { project, event, errorCode, from, to }: DeadLetterFilter): boolean {
  if (project !== undefined && letter.project !== project) return false
  if (event !== undefined && (letter.event ?? '') !== event) return false
  if (errorCode !== undefined && (letter.errorCode ?? '') !== errorCode) return false
  if (from !== undefined && letter.time < from.toISOString()) return false
  return to === undefined || letter.time < to.toISOString()
}

function readScanned (message: JsMsg): ScannedDeadLetter {
  const headers = readHeaders(message.headers)
  return {
    letter: readDeadLetter(message.seq, message.subject, headers, message.time),
    headers,
    body: message.data
  }
}

function readHeaders (headers: MsgHdrs | undefined): Record<string, string> {
  return Object.fromEntries([...headers ?? []].map(([name, values]) => [name, values[0] ?? '']))
}

function readDeadLetter (id: number, subject: string, headers: Record<string, string>, time: Date): DeadLetter {
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
