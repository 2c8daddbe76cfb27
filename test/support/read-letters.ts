import { scanDeadLetters } from '../../platform/dead-letters/read-dead-letters.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type DeadLetter, type DeadLetterFilter, decodeContent } from '../../schema/wire/dead-letter-message.ts'

export interface ReadDeadLetter extends DeadLetter {
  body: Uint8Array
  /** The body decoded: rows of events, or JSON; null when it is neither. */
  content: unknown
}

/** The dead letters that match, oldest first. */
export async function readDeadLetters (
  connection: NatsConnection, filter: DeadLetterFilter = {}
): Promise<ReadDeadLetter[]> {
  return await Array.fromAsync(scanDeadLetters(connection, { ...filter, withBodies: true }),
    async ({ letter, body }) => ({ ...letter, body, content: await decodeContent(body, letter.rows) }))
}
