/** The driver's pool, with limits that hold while this process is busy and errors that have codes. */
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from '../logger.ts'

/** Connections of one process. Work fails with the errors that `connectPostgres` names. */
export interface ConnectionPool {
  /** Lends a connection that nobody else uses meanwhile; work waits for a free one in the order in which it came. */
  use: <R>(work: (connection: Connection) => Promise<R>) => Promise<R>
  /** Waits for what runs, at most `timeout` seconds, then closes all connections. */
  end: (timeout?: number) => Promise<void>
}

/** The connection could not be made, or was lost: whether the statement had an effect is unknown. */
export class PostgresConnectionError extends Error {
  readonly code: 'MILLRACE_POSTGRES_CONNECTION_LOST' | 'MILLRACE_POSTGRES_POOL_CLOSED'

  constructor (code: PostgresConnectionError['code'], cause?: unknown) {
    super(`the connection to Postgres is closed${cause instanceof Error ? `: ${cause.message}` : ''}`, { cause })
    this.code = code
  }
}

/** An idle connection is closed after this long, in milliseconds. */
const IDLE_TIMEOUT_MS = 60_000

/** @param options.maxWaitMs  Longest wait for a free connection, in milliseconds; 0: no limit. */
export function createConnectionPool (
  { url, max, connectTimeoutMs, maxWaitMs, logger }:
  { url: string, max: number, connectTimeoutMs: number, maxWaitMs: number, logger?: Logger | undefined }
): ConnectionPool {
  const pool = new pg.Pool({
    connectionString: url, max, connectionTimeoutMillis: maxWaitMs, idleTimeoutMillis: IDLE_TIMEOUT_MS,
    keepAlive: true, types: { getTypeParser },
    Client: class extends Connection {
      constructor (config?: pg.ClientConfig) {
        // The pool's own limit counts the wait for a free connection too.
        super(config, connectTimeoutMs)
      }
    }
  })
  const lent = new Set<Connection>()
  const running = new Set<Promise<unknown>>()
  const closed = Promise.withResolvers<never>()
  // Safe to ignore: whoever waits for a connection gets it as well.
  closed.promise.catch(() => {})
  let ended: Promise<void> | undefined
  pool.on('connect', (client) => {
    // Its statements fail with the same error; without a listener it would end the process.
    client.on('error', () => {})
    client.on('notice', (notice) => logger?.debug({ notice: notice.message }, 'postgres notice'))
  })
  pool.on('error', (err) => logger?.debug({ err }, 'an idle connection to Postgres was lost'))

  async function lend<R> (work: (connection: Connection) => Promise<R>): Promise<R> {
    // The driver's pool leaves those that wait when it ends without an answer.
    const client = await Promise.race([pool.connect(), closed.promise]).catch((error: unknown) => {
      throw translateError(error)
    })
    if (!(client instanceof Connection)) throw new TypeError('the pool made a client of another class')
    lent.add(client)
    try {
      return await work(client)
    } finally {
      lent.delete(client)
      // One in the middle of a transaction must not serve anybody else.
      client.release(client.isLost || client.getTransactionStatus() !== 'I')
    }
  }

  async function close (timeout = Infinity): Promise<void> {
    const never = new Promise<never>(() => {})
    const late = timeout === Infinity ? never : delay(timeout * 1000, undefined, { ref: false })
    await Promise.race([Promise.allSettled(running), late])
    closed.reject(new PostgresConnectionError('MILLRACE_POSTGRES_POOL_CLOSED'))
    for (const connection of lent) connection.destroy()
    await Promise.race([pool.end(), late])
  }

  return {
    async use (work) {
      if (ended !== undefined) throw new PostgresConnectionError('MILLRACE_POSTGRES_POOL_CLOSED')
      const result = lend(work)
      running.add(result)
      return await result.finally(() => running.delete(result))
    },
    end: (timeout) => (ended ??= close(timeout))
  }
}

/** Interval between two checks of whether the connection stands, in milliseconds. */
const CHECK_INTERVAL_MS = 50

/** A connection that can be given up. */
export class Connection extends pg.Client {
  /** True once nothing more may be sent on it. */
  isLost = false
  readonly #socket: net.Socket

  /**
   * @param connectTimeoutMs  How long the connection may take until it stands, in milliseconds. Counted in checks, not
   *   by the clock: while this process is busy nobody checks, so what the server has sent meanwhile is read first.
   */
  constructor (config: pg.ClientConfig | undefined, connectTimeoutMs: number) {
    const socket = new net.Socket()
    super({ ...config, stream: () => socket })
    this.#socket = socket
    this.once('error', () => { this.isLost = true })
    let waitedMs = 0
    const check = setInterval(() => {
      waitedMs += CHECK_INTERVAL_MS
      if (waitedMs > connectTimeoutMs) socket.destroy(new Error(`no connection after ${connectTimeoutMs} ms`))
    }, CHECK_INTERVAL_MS).unref()
    this.once('connect', () => clearInterval(check))
    socket.once('close', () => clearInterval(check))
  }

  /** Closes it at once: the statements on it fail. */
  destroy (): void {
    this.isLost = true
    this.#socket.destroy()
  }
}

/** The driver's own errors have no code. A server that ends a connection says why, with severity FATAL. */
export function translateError (error: unknown): unknown {
  if (error instanceof PostgresConnectionError || !(error instanceof Error)) return error
  const isLost = error instanceof pg.DatabaseError
    ? error.severity === 'FATAL' && error.routine === 'ProcessInterrupts'
    : error.constructor === Error && !('code' in error)
  return isLost ? new PostgresConnectionError('MILLRACE_POSTGRES_CONNECTION_LOST', error) : error
}

/** Counts stay far below 2^53 and are numbers in the API's answers; a date is its midnight in UTC. */
function getTypeParser (type: number, format?: 'text' | 'binary'): (value: any) => unknown {
  if (type === pg.types.builtins.INT8) return Number
  if (type === pg.types.builtins.DATE) return (text: string) => new Date(text)
  return format === 'binary' ? pg.types.getTypeParser(type, format) : pg.types.getTypeParser(type, format)
}
