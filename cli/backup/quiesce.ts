import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { EVENTS_STREAM, PERSONS_STREAM, WARNINGS_STREAM } from '../../schema/wire/streams.ts'

/** Interval of polling the spools and the streams, in milliseconds. */
const POLL_INTERVAL_MS = 100

/** Maximum wait for running inserts to end, in milliseconds. */
const WAIT_MS = 60_000

/**
 * Resolves when every event acknowledged before the call is stored or dead-lettered: the spools were empty once, and
 * all messages that were in the streams then are acknowledged.
 *
 * All three streams are work queues: a message leaves when it is acknowledged, so the first sequence is their progress.
 *
 * @param options.timeoutMs  Gives up after this long, in milliseconds.
 * @throws {MillraceError} `MILLRACE_BACKUP_WAIT_TIMEOUT` when `timeoutMs` is over; the message names what still waits.
 */
export async function waitUntilStored ({ connection, readSpoolBytes, timeoutMs }: {
  connection: NatsConnection, readSpoolBytes: () => Promise<number>, timeoutMs: number
}): Promise<void> {
  const deadline = performance.now() + timeoutMs
  const waitFor = async (what: string, isDone: () => Promise<boolean>): Promise<void> => {
    while (!await isDone()) {
      if (performance.now() > deadline) {
        throw new MillraceError('MILLRACE_BACKUP_WAIT_TIMEOUT', `${what} after ${Math.round(timeoutMs / 1000)} s: ` +
          'a backup now would miss acknowledged events. "npx millrace status" shows the stuck part')
      }
      await delay(POLL_INTERVAL_MS)
    }
  }
  await waitFor('the spool of ingest is not empty', async () => await readSpoolBytes() === 0)
  const manager = await jetstreamManager(connection)
  const upTo = new Map<string, number>()
  for (const stream of [EVENTS_STREAM, PERSONS_STREAM, WARNINGS_STREAM]) {
    upTo.set(stream, (await readStreamInfo(manager, stream)).state.last_seq)
  }
  for (const [stream, last] of upTo) {
    await waitFor(`stream ${stream} still holds what came before`, async () => {
      const { state } = await readStreamInfo(manager, stream)
      return state.messages === 0 || state.first_seq > last
    })
  }
}

/**
 * Runs some work while the embedded ClickHouse server holds inserts back, for 30 s at most.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_INSERTS_NOT_HELD` when the embedded ClickHouse server does not hold
 *   them back within `waitMs`, or stopped before the work was done.
 */
export async function whileInsertsAreHeld<T> (url: string, work: () => Promise<T>, waitMs = WAIT_MS): Promise<T> {
  const { origin, headers } = parseClickHouseUrl(url)
  const waiting = new AbortController()
  const timer = setTimeout(() => waiting.abort(notHeld(`no answer within ${waitMs / 1000} s`)), waitMs)
  const reader = await fetch(`${origin}/hold-inserts`, { method: 'POST', headers, signal: waiting.signal }).then(async (response) => {
    if (response.status !== 200) throw notHeld(await response.text())
    const reader = response.body!.getReader()
    await reader.read()
    return reader
  }).finally(() => clearTimeout(timer))
  let lost = false
  // The answer ends only when the server stops holding inserts back.
  const ended = reader.read().then(() => { lost = true }, () => { lost = true })
  try {
    const result = await work()
    // If the server stopped in the meantime, the end of the answer is read within this turn of the event loop.
    await Promise.race([ended, new Promise((resolve) => setImmediate(resolve))])
    if (lost) throw notHeld('it let them go too early')
    return result
  } finally {
    await reader.cancel().catch(() => {})
  }
}

const notHeld = (why: string): MillraceError =>
  new MillraceError('MILLRACE_BACKUP_INSERTS_NOT_HELD', `ClickHouse did not hold inserts back: ${why.trim().slice(0, 200)}`)
