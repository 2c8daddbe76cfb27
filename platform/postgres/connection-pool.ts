import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from '../logger.ts'

/** Connections of one process. Work fails with the errors that `connectPostgres` names. */
export interface ConnectionPool {
  /** Lends a connection that nobody else uses meanwhile: for transactions. */
  lend: Use
  /** Lends one for a single statement: a free one, or, when all are busy, one that runs other statements. */
  share: Use
  /** Waits for what runs, at most `timeout` seconds, then closes all connections. */
  end: (timeout?: number) => Promise<void>
}

type Use = <R>(work: (connection: Connection) => Promise<R>) => Promise<R>

interface Waiting {
  start: (connection: Connection) => Promise<void>
  fail: (error: unknown) => void
}

/** The connection could not be made, or was lost: whether the statement had an effect is unknown. */
export class PostgresConnectionError extends Error {
  readonly code: 'MILLRACE_POSTGRES_CONNECTION_LOST' | 'MILLRACE_POSTGRES_POOL_CLOSED'

  constructor (code: PostgresConnectionError['code'], cause?: unknown) {
    super(`the connection to Postgres is closed${cause instanceof Error ? `: ${cause.message}` : ''}`, { cause })
    this.code = code
  }
}

/**
 * A pool of the driver, with statements sent one behind the other on one connection when there are more of them than
 * connections: an answer to 32 flag requests at once costs 8 writes, not 32.
 */
export function createConnectionPool (
  { url, max, pipeline, connectTimeoutMs, logger }:
  { url: string, max: number, pipeline: boolean, connectTimeoutMs: number, logger?: Logger | undefined }
): ConnectionPool {
  const pool = new pg.Pool({
    connectionString: url, max, pipeline, idleTimeoutMillis: 60_000, keepAlive: true, types: { getTypeParser },
    Client: class extends Connection {
      constructor (config?: pg.ClientConfig) {
        // The pool's own limit would count the wait for a free connection too.
        super(config, connectTimeoutMs)
      }
    }
  })
  /** Statements under way by the connection that they share. */
  const shared = new Map<Connection, number>()
  const lent = new Set<Connection>()
  const running = new Set<Promise<unknown>>()
  const waiting: Waiting[] = []
  const transactionsWaiting = new Set<(error: unknown) => void>()
  let requests = 0
  let ended: Promise<void> | undefined
  pool.on('connect', (client) => {
    // Its statements fail with the same error; without a listener it would end the process.
    client.on('error', () => {})
    client.on('notice', (notice) => logger?.debug({ notice: notice.message }, 'postgres notice'))
  })
  pool.on('error', (err) => logger?.debug({ err }, 'an idle connection to Postgres was lost'))

  async function connect (): Promise<Connection> {
    return await pool.connect().catch((error: unknown) => { throw translateError(error) }) as unknown as Connection
  }

  function release (connection: Connection): void {
    // One in the middle of a transaction must not serve anybody else.
    const isUnfit = connection.isLost || connection.getTransactionStatus() !== 'I'
    ;(connection as unknown as pg.PoolClient).release(isUnfit)
  }

  function track<R> (work: Promise<R>): Promise<R> {
    running.add(work)
    return work.finally(() => running.delete(work))
  }

  async function runAlone<R> (work: (connection: Connection) => Promise<R>): Promise<R> {
    const connection = await new Promise<Connection>((resolve, reject) => {
      transactionsWaiting.add(reject)
      connect().finally(() => transactionsWaiting.delete(reject)).then(resolve, reject)
    })
    lent.add(connection)
    try {
      return await work(connection)
    } finally {
      lent.delete(connection)
      release(connection)
      startWaiting()
    }
  }

  function startWaiting (): void {
    while (waiting.length > 0) {
      const connection = findShared()
      if (connection === undefined) break
      void start(connection, waiting.shift()!)
    }
    while (requests < Math.min(waiting.length, max)) void request()
  }

  /** The connection with the fewest statements; none while one is free, or a transaction waits for one. */
  function findShared (): Connection | undefined {
    if (pool.idleCount > 0 || pool.totalCount < max || transactionsWaiting.size > 0) return
    let least: Connection | undefined
    for (const [connection, statements] of shared) {
      if (!connection.isLost && (least === undefined || statements < shared.get(least)!)) least = connection
    }
    return least
  }

  async function request (): Promise<void> {
    requests++
    try {
      const connection = await connect()
      requests--
      const share = waiting.splice(0, Math.ceil(waiting.length / (requests + 1)))
      if (share.length === 0) release(connection)
      for (const next of share) void start(connection, next)
    } catch (error) {
      requests--
      waiting.shift()?.fail(error)
    }
    startWaiting()
  }

  async function start (connection: Connection, next: Waiting): Promise<void> {
    shared.set(connection, (shared.get(connection) ?? 0) + 1)
    await next.start(connection)
    const left = shared.get(connection)! - 1
    if (left > 0) shared.set(connection, left)
    else {
      shared.delete(connection)
      release(connection)
    }
    startWaiting()
  }

  async function close (timeout = Infinity): Promise<void> {
    const never = new Promise<never>(() => {})
    const waited = timeout === Infinity ? never : delay(timeout * 1000, undefined, { ref: false })
    await Promise.race([Promise.allSettled(running), waited])
    // The driver's pool would leave them without an answer.
    const fails = [...waiting.splice(0).map(({ fail }) => fail), ...transactionsWaiting]
    for (const fail of fails) fail(new PostgresConnectionError('MILLRACE_POSTGRES_POOL_CLOSED'))
    for (const connection of [...lent, ...shared.keys()]) connection.destroy()
    await Promise.race([pool.end(), waited])
  }

  return {
    lend: async (work) => {
      if (ended !== undefined) throw new PostgresConnectionError('MILLRACE_POSTGRES_POOL_CLOSED')
      return await track(runAlone(work))
    },
    share: async (work) => {
      if (ended !== undefined) throw new PostgresConnectionError('MILLRACE_POSTGRES_POOL_CLOSED')
      return await track(new Promise((resolve, reject) => {
        waiting.push({ start: async (connection) => await work(connection).then(resolve, reject), fail: reject })
        startWaiting()
      }))
    },
    end: (timeout) => (ended ??= close(timeout))
  }
}

/** A connection that can be given up, and sends what is written to it in one turn of the event loop at once. */
export class Connection extends pg.Client {
  /** True once nothing more may be sent on it. */
  isLost = false
  readonly #socket: net.Socket

  /** @param connectTimeoutMs  How long the server may say nothing until the connection stands, in milliseconds. */
  constructor (config: pg.ClientConfig | undefined, connectTimeoutMs: number) {
    const socket = new BatchingSocket()
    super({ ...config, stream: () => socket })
    this.#socket = socket
    this.once('error', () => { this.isLost = true })
    const watch = giveUpWhenSilent(socket, connectTimeoutMs)
    this.once('connect', () => clearInterval(watch))
  }

  /** Closes it at once: the statements on it fail. */
  destroy (): void {
    this.isLost = true
    this.#socket.destroy()
  }
}

/** How often it is looked whether a server has said something, in milliseconds. */
const LOOK_MS = 50

/**
 * Destroys a socket whose server says nothing. Silence is counted in looks at it: while this process is busy with
 * something else nobody looks, so what the server has said meanwhile is read before it is given up. A slow server that
 * goes on talking is not given up either.
 */
function giveUpWhenSilent (socket: net.Socket, timeoutMs: number): NodeJS.Timeout {
  let silentMs = 0
  let heard = 0
  const watch = setInterval(() => {
    if (socket.bytesRead !== heard) silentMs = 0
    heard = socket.bytesRead
    silentMs += LOOK_MS
    if (silentMs > timeoutMs) socket.destroy(new Error(`the server says nothing for ${timeoutMs} ms`))
  }, LOOK_MS).unref()
  socket.once('close', () => clearInterval(watch))
  return watch
}

class BatchingSocket extends net.Socket {
  #isWaiting = false

  override cork (): void {
    super.cork()
    if (this.#isWaiting) return
    this.#isWaiting = true
    super.cork()
    process.nextTick(() => {
      this.#isWaiting = false
      super.uncork()
    })
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
  return pg.types.getTypeParser(type, format as 'text')
}
