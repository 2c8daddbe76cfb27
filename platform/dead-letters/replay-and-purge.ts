import { jetstream, JetStreamApiError, jetstreamManager } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { DEAD_LETTER_STREAM, HEADER } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../nats/connect-nats.ts'
import { DEAD_LETTER_HEADER, type DeadLetterFilter } from '../../schema/wire/dead-letter-message.ts'
import { scanDeadLetters, type ScannedDeadLetter } from './read-dead-letters.ts'

interface WorkOnDeadLettersOptions extends DeadLetterFilter {
  /** One letter only. */
  id?: number
  /** Maximum letters. */
  limit?: number
  /** Only count the letters that match. */
  dryRun?: boolean
  /** Queues the body of a letter of stage `notify` again; false: its target is gone. Absent: such letters stay. */
  requeue?: (body: Uint8Array) => Promise<boolean>
  /** Called after each letter. */
  onProgress?: (done: number) => void
}

export interface ReplayResult {
  matched: number
  /** Letters that are back in their stream and removed, by this replay or by another one. */
  replayed: number
  /** Letters without the subject that they came from, or whose target is gone; they stay. */
  skipped: number
}

export interface PurgeResult {
  matched: number
  purged: number
}

/**
 * Publishes dead letters where they came from, each with the identity it had, and removes it once the stream has it.
 *
 * Replaying one twice (a crash in between, two operators) stores its events once: the stream knows the message's id for
 * two minutes, and the writer looks every event of a replayed message up in ClickHouse.
 *
 * @throws when a stream does not take a message, such as a full one. What was replayed until then stays replayed.
 */
export async function replayDeadLetters (
  connection: NatsConnection, options: WorkOnDeadLettersOptions = {}
): Promise<ReplayResult> {
  const result: ReplayResult = { matched: 0, replayed: 0, skipped: 0 }
  for await (const scanned of selectDeadLetters(connection, { ...options, withBodies: true })) {
    result.matched++
    if (options.dryRun === true) continue
    const isReplayed = scanned.letter.stage === 'notify' ? await options.requeue?.(scanned.body) : await replay(connection, scanned)
    if (isReplayed === true) {
      await removeDeadLetter(connection, scanned.letter.id)
      result.replayed++
    } else {
      result.skipped++
    }
    options.onProgress?.(result.matched)
  }
  return result
}

/** Removes matching dead letters for good. What somebody else removes meanwhile is matched and not purged. */
export async function purgeDeadLetters (
  connection: NatsConnection, options: WorkOnDeadLettersOptions = {}
): Promise<PurgeResult> {
  const result: PurgeResult = { matched: 0, purged: 0 }
  for await (const { letter } of selectDeadLetters(connection, options)) {
    result.matched++
    if (options.dryRun === true) continue
    if (await removeDeadLetter(connection, letter.id)) result.purged++
    options.onProgress?.(result.matched)
  }
  return result
}

async function * selectDeadLetters (
  connection: NatsConnection, options: WorkOnDeadLettersOptions & { withBodies?: boolean }
): AsyncGenerator<ScannedDeadLetter> {
  const { id, limit = Infinity } = options
  let count = 0
  if (limit <= 0) return
  for await (const scanned of scanDeadLetters(connection, id === undefined ? options : { ...options, fromId: id })) {
    if (id !== undefined && scanned.letter.id !== id) return
    yield scanned
    if (++count >= limit) return
  }
}

/** False: another replay or purge has removed it since it was read. */
async function removeDeadLetter (connection: NatsConnection, id: number): Promise<boolean> {
  const { streams } = await jetstreamManager(connection, { checkAPI: false })
  try {
    return await streams.deleteMessage(DEAD_LETTER_STREAM, id, false)
  } catch (error) {
    // A server alone and a cluster refuse a message that is gone with different codes, also used for other failures.
    if (!(error instanceof JetStreamApiError)) throw error
    if (await streams.getMessage(DEAD_LETTER_STREAM, { seq: id }) === null) return false
    throw error
  }
}

async function replay (connection: NatsConnection, scanned: ScannedDeadLetter): Promise<boolean> {
  const { letter, headers: all, body } = scanned
  if (letter.subject === null) return false
  const message = headers()
  const own = new Set<string>(Object.values(DEAD_LETTER_HEADER))
  for (const [name, value] of Object.entries(all)) if (!own.has(name) && !name.startsWith('Nats-')) message.set(name, value)
  // The events may have come again while the letter waited, by another route and through another partition.
  message.set(HEADER.lookUp, '1')
  // The books know its events: they were accepted before.
  if (letter.stage === 'writer') message.set(HEADER.replayed, '1')
  if (letter.stage === 'persons') message.set(HEADER.received, String(Date.parse(letter.time)))
  await jetstream(connection).publish(letter.subject, body, { msgID: `replay:${letter.id}:${letter.time}`, headers: message })
  return true
}
