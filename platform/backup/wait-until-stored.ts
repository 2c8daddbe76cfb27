import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { EVENTS_STREAM, PERSONS_STREAM } from '../../schema/streams.ts'
import { type NatsConnection } from '../nats/connect-nats.ts'
import { MillraceError } from '../errors.ts'

const POLL_INTERVAL_MS = 100

export interface WaitUntilSettledOptions {
  connection: NatsConnection
  /** Bytes that wait in the spools of ingest. */
  readSpoolBytes: () => Promise<number>
  /** Gives up after this long, in milliseconds. */
  timeoutMs: number
}

/**
 * Resolves when every event acknowledged before the call is in the databases, or dead-lettered: the spools
 * were empty once, and what the streams held then is acknowledged.
 *
 * Both streams are work queues: a message leaves when it is acknowledged, so the first one tells how far they are.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_NOT_SETTLED` saying what still waits.
 */
export async function waitUntilStored (options: WaitUntilSettledOptions): Promise<void> {
  const { connection, readSpoolBytes, timeoutMs } = options
  const deadline = performance.now() + timeoutMs
  const waitFor = async (what: string, isDone: () => Promise<boolean>): Promise<void> => {
    while (!await isDone()) {
      if (performance.now() > deadline) {
        throw new MillraceError('MILLRACE_BACKUP_NOT_SETTLED', `${what} after ${Math.round(timeoutMs / 1000)} s: ` +
          'a backup now would miss acknowledged events. See "npx millrace status" for what is stuck')
      }
      await delay(POLL_INTERVAL_MS)
    }
  }
  await waitFor('the spool of ingest is not empty', async () => await readSpoolBytes() === 0)
  const manager = await jetstreamManager(connection)
  const upTo = new Map<string, number>()
  for (const stream of [EVENTS_STREAM, PERSONS_STREAM]) {
    upTo.set(stream, (await manager.streams.info(stream)).state.last_seq)
  }
  for (const [stream, last] of upTo) {
    await waitFor(`stream ${stream} still holds what came before`, async () => {
      const { state } = await manager.streams.info(stream)
      return state.messages === 0 || state.first_seq > last
    })
  }
}
