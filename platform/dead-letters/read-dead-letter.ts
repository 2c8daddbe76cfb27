import { jetstreamManager } from '@nats-io/jetstream'
import { frameOf } from '../../schema/frame-message.ts'
import { DEAD_LETTER_STREAM } from '../../schema/streams.ts'
import { type NatsConnection } from '../nats/connect-nats.ts'
import { decodeFrame } from '../native-block/frame-codec.ts'
import { describeRows } from '../native-block/describe-rows.ts'
import { type DeadLetter } from './dead-letter.ts'
import { readDeadLetter, readHeaders } from './scan-dead-letters.ts'

/** A dead letter with everything in it. */
export interface OpenedDeadLetter extends DeadLetter {
  /** Headers of the original message and of the letter. */
  headers: Record<string, string>
  /** The body as it came, base64. */
  bodyBase64: string
  /** The body decoded: rows of events, or JSON; null when it is neither, which may be why it is here. */
  content: unknown
}

/** Reads one dead letter with its body; null when there is none of that id. */
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

async function decodeContent (body: Uint8Array, rows: number | null): Promise<unknown> {
  try {
    return rows === null
      ? JSON.parse(Buffer.from(body).toString())
      : describeRows(await decodeFrame(frameOf(body, rows)))
  } catch {
    // What cannot be decoded is shown as bytes.
    return null
  }
}
