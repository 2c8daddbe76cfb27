import { Client } from 'pg'
import type { Logger } from '../logger.ts'
import { pause } from '../intervals.ts'

export interface ListenOptions {
  /** `postgres://user:password@host:port/database`. */
  url: string
  channel: string
  /** Called for each notification, and after each (re)connection: whatever came in between was missed. */
  onChange: () => void
  logger: Logger
}

/** A running subscription. */
export interface Listener {
  /** Resolves when the first LISTEN stands. Never rejects: an absent server is waited for. */
  ready: Promise<void>
  stop: () => Promise<void>
}

const MAX_PAUSE_MS = 5000

/** How often a query checks that the connection is alive, in milliseconds. */
const HEARTBEAT_MS = 15_000

/**
 * Listens on a channel of Postgres for as long as the process runs, through restarts and outages of the server.
 *
 * It has a connection of its own, because LISTEN belongs to a connection and poolers like PgBouncer must not share it.
 */
export function listenPostgres (options: ListenOptions): Listener {
  const aborted = new AbortController()
  const { promise: ready, resolve } = Promise.withResolvers<undefined>()
  const running = run(options, aborted.signal, () => resolve(undefined))
  return {
    ready,
    async stop () {
      aborted.abort()
      await running
    }
  }
}

async function run (options: ListenOptions, signal: AbortSignal, onListening: () => void): Promise<void> {
  let pauseMs = 100
  while (!signal.aborted) {
    try {
      await listenUntilLost(options, signal, () => {
        pauseMs = 100
        onListening()
        options.onChange()
      })
    } catch (err) {
      if (signal.aborted) return
      options.logger.warn({ err, channel: options.channel, retryAfterMs: pauseMs }, 'lost the connection that listens for changes; reconnecting')
    }
    await pause(pauseMs, signal)
    pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)
  }
}

async function listenUntilLost (options: ListenOptions, signal: AbortSignal, onListening: () => void): Promise<void> {
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
    onListening()
    await lost.promise
  } finally {
    clearInterval(heartbeat)
    signal.removeEventListener('abort', abort)
    // Safe to ignore: the connection is given up, whatever state it is in.
    await client.end().catch(() => {})
  }
}
