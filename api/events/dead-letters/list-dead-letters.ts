import { jetstreamManager } from '@nats-io/jetstream'
import { readHeaders, scanDeadLetters, type ScanOptions } from '../../../platform/dead-letters/read-dead-letters.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { type DeadLetter, type DeadLetterFilter, decodeContent, readDeadLetter } from '../../../schema/wire/dead-letter-message.ts'
import { DEAD_LETTER_STREAM } from '../../../schema/wire/streams.ts'

interface ListOptions extends Omit<ScanOptions, 'withBodies'> {
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
