import { DeliverPolicy, jetstream, jetstreamManager, type JsMsg } from '@nats-io/jetstream'
import type { MsgHdrs } from '@nats-io/transport-node'
import { type DeadLetter, type DeadLetterFilter, readDeadLetter } from '../../schema/wire/dead-letter-message.ts'
import { DEAD_LETTER_STREAM } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../nats/connect-nats.ts'
import { readStreamInfo } from '../nats/stream-info.ts'

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

/** The headers of a message by name, of each the first value. */
export function readHeaders (headers: MsgHdrs | undefined): Record<string, string> {
  return Object.fromEntries([...headers ?? []].map(([name, values]) => [name, values[0] ?? '']))
}
