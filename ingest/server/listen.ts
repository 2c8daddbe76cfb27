import { readFileSync } from 'node:fs'
import net, { type ListenOptions, type Server } from 'node:net'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyListenOptions } from 'fastify'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'

/** A turn of the event loop that takes less had nothing to do, in milliseconds. */
const QUIET_TURN_MS = 0.1
/** How long a process under load waits for such a turn, in milliseconds; none of some hundred took over 30 turns. */
const MAX_WAIT_MS = 200

/**
 * Opens the port. Two processes may share it, so that one can be replaced without a refused connection.
 *
 * @returns the port; the one that the system chose when 0 was asked for.
 */
export async function listen (app: FastifyInstance, http: { host: string, port: number }): Promise<number> {
  const options: FastifyListenOptions & ListenOptions = { ...http, reusePort: true }
  await app.listen(options)
  const address = app.server.address()
  return typeof address === 'object' && address !== null ? address.port : http.port
}

/**
 * Ends an app without failing a request: no new connections, a time in which each answer asks its client to connect
 * again (the app sets `connection: close` once it does not listen), then the idle connections, then the busy ones.
 *
 * Closing idle connections at once, as `http.Server` does, would break those on which a request is just arriving.
 *
 * @param graceMs  How long connections may stay idle. Busy clients are gone after one request.
 */
export async function closeGracefully (app: FastifyInstance, graceMs: number): Promise<void> {
  const { server } = app
  await waitForQuietTurn()
  const stopped = Promise.withResolvers<void>()
  const closeListener = net.Server.prototype.close as (this: net.Server, done: () => void) => net.Server
  closeListener.call(server, () => stopped.resolve())
  await Promise.race([stopped.promise, delay(graceMs)])
  server.closeIdleConnections()
  await stopped.promise
  await app.close()
}

/**
 * A listener that closes resets what it has not accepted yet: what came since it last accepted, earlier in this turn of
 * the event loop. In a turn without work that is next to nothing; only the kernel can let another listener take it over
 * (`net.ipv4.tcp_migrate_req`, docs/run/operations.md).
 */
async function waitForQuietTurn (): Promise<void> {
  const giveUpAt = performance.now() + MAX_WAIT_MS
  // The turn in which we were asked to end is not seen from its beginning.
  await nextTurn()
  for (let now = performance.now(), began = 0; now < giveUpAt; now = performance.now()) {
    if (now - began < QUIET_TURN_MS) return
    began = now
    await nextTurn()
  }
}

/**
 * Files that stay for everything but clients: 64 connections to the API, those to NATS and Postgres, spool, threads,
 * files of the SDK.
 */
const FILES_OF_OTHERS = 160

/** A process that may open next to no files still answers. */
const LEAST_CONNECTIONS = 16

export interface ConnectionLimitOptions {
  /** `MILLRACE_MAX_CONNECTIONS`. */
  maxConnections: number
  metrics: Metrics
  logger: Logger
  /** How many files this process may open; default: asked of the kernel. */
  openFiles?: number
}

/**
 * Limits the open connections of ingest to the setting, or to fewer when this process may not open that many files:
 * otherwise the kernel's limit closes connections unseen, and takes files from the spool. A connection beyond is closed
 * at once, counted, and a reason for a warning.
 */
export function limitConnections (server: Server, options: ConnectionLimitOptions): void {
  const { maxConnections, metrics, logger, openFiles = readOpenFilesLimit() } = options
  const limit = Math.min(maxConnections, Math.max(LEAST_CONNECTIONS, openFiles - FILES_OF_OTHERS))
  if (limit < maxConnections) {
    logger.warn({ limit, maxConnections, openFiles }, 'the open-file limit is too low for MILLRACE_MAX_CONNECTIONS, so fewer connections ' +
      'are accepted: raise the limit (ulimit -n, LimitNOFILE of the unit), or lower the setting')
  }
  let refused = 0
  server.maxConnections = limit
  server.on('drop', () => {
    refused++
    // The log makes one line of those that come again and again.
    logger.warn({ limit }, 'closed a new connection because the maximum number is open; clients see a reset, and SDKs retry')
  })
  metrics.counterFrom('refused_connections_total', 'Connections closed at the maximum number.', () => refused)
}

/** Linux only; elsewhere the setting alone counts. */
function readOpenFilesLimit (): number {
  try {
    const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return Number(soft) || Infinity
  } catch {
    return Infinity
  }
}
