import { type NatsConnection } from '../nats/connect-nats.ts'
import { type DeadLetterFilter } from './dead-letter.ts'
import { scanDeadLetters } from './scan-dead-letters.ts'

/** Dead letters of one stage, reason and project. */
export interface DeadLetterCount {
  stage: string
  reason: string
  /** null: about no project, or about several. */
  project: number | null
  count: number
  bytes: number
  /** ISO 8601. */
  oldest: string
  newest: string
}

/** Counts matching dead letters by stage, reason and project. */
export async function countDeadLetters (
  connection: NatsConnection, filter: DeadLetterFilter = {}
): Promise<DeadLetterCount[]> {
  const counts = new Map<string, DeadLetterCount>()
  for await (const { letter, bodyBytes } of scanDeadLetters(connection, filter)) {
    const { stage, reason, project, time } = letter
    const key = `${stage} ${reason} ${project}`
    const known = counts.get(key)
    if (known === undefined) {
      counts.set(key, { stage, reason, project, count: 1, bytes: bodyBytes, oldest: time, newest: time })
      continue
    }
    known.count++
    known.bytes += bodyBytes
    if (time < known.oldest) known.oldest = time
    if (time > known.newest) known.newest = time
  }
  return [...counts.values()]
}
