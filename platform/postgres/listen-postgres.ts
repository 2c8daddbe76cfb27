import { Client } from 'pg'
import type { Logger } from '../logger.ts'
import { type IntervalLoop, runAtIntervals } from '../intervals.ts'

export interface ListenOptions {
  /** `postgres://user:password@host:port/database`. */
  url: string
  channel: string
  /** Called for each notification, and after each (re)connection: whatever came in between was missed. */
  onChange: () => void
  logger: Logger
}

/** How often a query checks that the connection is alive, in milliseconds. */
const HEARTBEAT_MS = 15_000

/**
 * Listens on a channel of Postgres for as long as the process runs, through restarts and outages of the server.
 *
 * It has a connection of its own, because LISTEN belongs to a connection and poolers like PgBouncer must not share it.
 */
export function listenPostgres (options: ListenOptions): IntervalLoop {
  return runAtIntervals({
    everyMs: 100, stopWithinMs: Infinity, logger: options.logger,
    failure: 'could not connect to listen for changes; trying again',
    run: async (signal) => await listenUntilLost(options, signal)
  })
}

/** Ends when the connection is lost. @throws when it could not be made. */
async function listenUntilLost (options: ListenOptions, signal: AbortSignal): Promise<void> {
  const client = new Client({
    connectionString: options.url, connectionTimeoutMillis: 3000, query_timeout: 5000, keepAlive: true
  })
  const lost = Promise.withResolvers<never>()
  // Awaited below; until then a loss during connect is reported by connect itself.
  lost.promise.catch(() => {})
  client.on('error', (error) => lost.reject(error))
  client.on('end', () => lost.reject(new Error('the connection ended')))
  client.on('notification', () => options.onChange())
  const abort = (): void => lost.reject(new Error('stopped'))
  signal.addEventListener('abort', abort, { once: true })
  const heartbeat = setInterval(() => { client.query('SELECT 1').catch(lost.reject) }, HEARTBEAT_MS)
  try {
    await Promise.race([client.connect(), lost.promise])
    await Promise.race([client.query(`LISTEN ${client.escapeIdentifier(options.channel)}`), lost.promise])
    options.onChange()
    await lost.promise.catch((err: unknown) => {
      if (!signal.aborted) options.logger.warn({ err, channel: options.channel }, 'lost the connection that listens for changes; reconnecting')
    })
  } finally {
    clearInterval(heartbeat)
    signal.removeEventListener('abort', abort)
    // Safe to ignore: the connection is given up, whatever state it is in.
    await client.end().catch(() => {})
  }
}
