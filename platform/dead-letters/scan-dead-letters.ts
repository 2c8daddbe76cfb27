import { DeliverPolicy, jetstream, jetstreamManager, type JsMsg } from '@nats-io/jetstream'
import { type MsgHdrs } from '@nats-io/transport-node'
import { DEAD_LETTER_STREAM, HEADER, type DeadLetterStage } from '../../schema/streams.ts'
import { type NatsConnection } from '../nats/connect-nats.ts'
import { DEAD_LETTER_HEADER, type DeadLetter, type DeadLetterFilter } from './dead-letter.ts'

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
  /** Bytes of the body; 0 when the server does not tell. */
  bodyBytes: number
  body: Uint8Array
}

/** Silence of the server after which a scan fails, in milliseconds. */
const SCAN_TIMEOUT_MS = 10_000

/**
 * Reads the dead letters that match, oldest first, up to the newest one at the start of the scan. Stage, reason and
 * time are filtered by the server, project and event here.
 */
export async function * scanDeadLetters (
  connection: NatsConnection, options: ScanOptions = {}
): AsyncGenerator<ScannedDeadLetter> {
  const subject = `dead.${options.stage ?? '*'}.${options.reason ?? '*'}`
  const newest = await findNewest(connection)
  if (newest < (options.fromId ?? 1)) return
  const consumer = await jetstream(connection).consumers.get(DEAD_LETTER_STREAM, {
    filter_subjects: [subject],
    headers_only: options.withBodies !== true,
    ...startOf(options)
  })
  const info = await consumer.info()
  let left = info.num_pending
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
    if (got === 0) throw new Error(`the dead-letter stream did not answer in ${SCAN_TIMEOUT_MS} ms`)
  }
}

async function findNewest (connection: NatsConnection): Promise<number> {
  return (await (await jetstreamManager(connection)).streams.info(DEAD_LETTER_STREAM)).state.last_seq
}

function startOf ({ fromId, from }: ScanOptions): object {
  if (fromId !== undefined) return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: fromId }
  return from === undefined ? {} : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: from.toISOString() }
}

function matches (letter: DeadLetter, { project, event, from, to }: DeadLetterFilter): boolean {
  if (project !== undefined && letter.project !== project) return false
  if (event !== undefined && letter.event !== event) return false
  if (from !== undefined && letter.time < from.toISOString()) return false
  return to === undefined || letter.time < to.toISOString()
}

function readScanned (message: JsMsg): ScannedDeadLetter {
  const headers = readHeaders(message.headers)
  return {
    letter: readDeadLetter(message.seq, message.subject, headers, message.time),
    headers,
    bodyBytes: message.data.length || Number(headers['Nats-Msg-Size'] ?? 0),
    body: message.data
  }
}

export function readHeaders (headers: MsgHdrs | undefined): Record<string, string> {
  return Object.fromEntries([...headers ?? []].map(([name, values]) => [name, values[0] ?? '']))
}

/** Reads what the headers say about a letter. */
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
