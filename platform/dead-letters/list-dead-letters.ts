import { type NatsConnection } from '../nats/connect-nats.ts'
import { type DeadLetter, type DeadLetterFilter } from './dead-letter.ts'
import { scanDeadLetters } from './scan-dead-letters.ts'

export interface ListOptions extends DeadLetterFilter {
  /** Letters at most. */
  limit?: number
  /** Letters to pass over first. */
  offset?: number
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
