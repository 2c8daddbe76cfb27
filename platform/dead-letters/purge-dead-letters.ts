import { type NatsConnection } from '../nats/connect-nats.ts'
import { removeDeadLetter, selectDeadLetters, type WorkOnDeadLettersOptions } from './replay-dead-letters.ts'

export interface PurgeResult {
  /** Letters that match. */
  matched: number
  purged: number
}

/** Removes matching dead letters for good. */
export async function purgeDeadLetters (
  connection: NatsConnection, options: WorkOnDeadLettersOptions = {}
): Promise<PurgeResult> {
  const result: PurgeResult = { matched: 0, purged: 0 }
  for await (const { letter } of selectDeadLetters(connection, options)) {
    result.matched++
    if (options.dryRun === true) continue
    await removeDeadLetter(connection, letter.id)
    result.purged++
    options.onProgress?.(result.matched)
  }
  return result
}
