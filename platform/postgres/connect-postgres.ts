import { PassThrough, type Readable, type Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { type Logger } from '../logger.ts'
import { Columns, compile, type Row, type Rows, type Run, Statement } from './statement.ts'

export { type Row, Statement } from './statement.ts'

/** Writes statements: templates, whose values become parameters and whose statements become parts of the text. */
export interface SqlTemplates {
  <T extends readonly object[] = Row[]>(parts: TemplateStringsArray, ...values: unknown[]): Statement<T>
  /** Columns with their values, after INSERT INTO or SET. */
  (columns: object | readonly object[]): Columns
  /** A value for a column of type json or jsonb. */
  json: (value: unknown) => string
  /** SQL as it is, never prepared; several statements only without values. */
  unsafe: <T extends readonly object[] = Row[]>(text: string, values?: readonly unknown[]) => Statement<T>
}

/** A transaction. Its statements run one after another, in the order in which they are awaited. */
export interface TransactionSql extends SqlTemplates {
  /** Runs work whose failure takes back what it did, and nothing before it. */
  savepoint: <R>(work: (transaction: TransactionSql) => Promise<R>) => Promise<R>
  /** The bytes of a `COPY ... TO STDOUT`. The next statement waits for their end; destroying it passes over the rest. */
  copyTo: (text: string) => Promise<Readable>
  /** Takes the bytes of a `COPY ... FROM STDIN`. The next statement waits for its end. */
  copyFrom: (text: string) => Promise<Writable>
}

/** A pool of connections to the metadata. */
export interface Sql extends SqlTemplates {
  /** Runs work in a transaction, which is committed when the work resolves. */
  begin: {
    <R>(work: (transaction: TransactionSql) => Promise<R>): Promise<R>
    /** @param options  What follows BEGIN, such as the isolation level. */
    <R>(options: string, work: (transaction: TransactionSql) => Promise<R>): Promise<R>
  }
  /** Waits for what runs, at most `timeout` seconds, then closes the connections. Later calls fail: CONNECTION_ENDED. */
  end: (options?: { timeout?: number }) => Promise<void>
  /** Told the text of each statement: tests look at what is asked. */
  onStatement: ((text: string) => void) | undefined
}

/** The connection could not be made, or was lost: whether the statement had an effect is unknown. */
export class PostgresConnectionError extends Error {
  readonly code: 'CONNECTION_CLOSED' | 'CONNECTION_ENDED'

  constructor (code: PostgresConnectionError['code'], cause?: unknown) {
    super(`the connection to Postgres is closed${cause instanceof Error ? `: ${cause.message}` : ''}`, { cause })
    this.code = code
  }
}

/**
 * Opens the pool for the metadata. Connections are made on first use, so this never throws for an absent server.
 * Statements fail with `DatabaseError` of the driver (its `code` is the SQLSTATE), with a
 * {@link PostgresConnectionError}, or with the error of the socket (`ECONNREFUSED`, ...).
 *
 * @param options.url   `postgres://user:password@host:port/database`, TLS by `?sslmode=verify-full`.
 * @param options.max   Connections at most; default 8.
 */
export function connectPostgres (options: { url: string, max?: number, logger?: Logger }): Sql {
  const pool = new pg.Pool({
    connectionString: options.url, max: options.max ?? 8, idleTimeoutMillis: 60_000, keepAlive: true,
    types: { getTypeParser }, Client: TimedClient
  })
  const [running, busy] = [new Set<Promise<unknown>>(), new Set<pg.PoolClient>()]
  let end: Promise<void> | undefined
  pool.on('connect', (client) => {
    // Its statements fail with the same error; without a listener it would end the process.
    client.on('error', () => {})
    client.on('notice', (notice) => options.logger?.debug({ notice: notice.message }, 'postgres notice'))
  })
  pool.on('error', (err) => options.logger?.debug({ err }, 'an idle connection to Postgres was lost'))

  async function withClient<R> (use: (client: pg.PoolClient) => Promise<R>): Promise<R> {
    if (end !== undefined) throw new PostgresConnectionError('CONNECTION_ENDED')
    const work = (async () => {
      const client = await pool.connect().catch((error: unknown) => { throw translateError(error) })
      busy.add(client)
      let isLost = false
      try {
        return await use(client)
      } catch (error) {
        isLost = error instanceof PostgresConnectionError
        throw error
      } finally {
        busy.delete(client)
        // Nor may one in the middle of a transaction serve anybody else.
        client.release(isLost || client.getTransactionStatus() !== 'I')
      }
    })()
    running.add(work)
    return await work.finally(() => running.delete(work))
  }

  async function send (client: pg.PoolClient, statement: Statement): Promise<Rows<any>> {
    const { text, values } = compile(statement)
    sql.onStatement?.(text)
    const name = statement.parts.length > 1 || 'raw' in statement.parts ? nameOf(text) : undefined
    statement.onCancel = () => { void client.end() }
    try {
      if (statement.isCancelled) throw new PostgresConnectionError('CONNECTION_CLOSED')
      const result = [await client.query({ text, values, ...name === undefined ? {} : { name } })].flat().at(-1)!
      return Object.defineProperties(result.rows, {
        count: { value: result.rowCount ?? 0 }, command: { value: result.command }
      }) as Rows<any>
    } catch (error) {
      if (isStale(error)) NAMES.delete(text)
      throw translateError(error)
    } finally {
      statement.onCancel = undefined
    }
  }

  async function begin<R> (...[first, second]: [string, Work<R>] | [Work<R>]): Promise<R> {
    const [mode, work] = typeof first === 'string' ? [first, second!] : ['', first]
    return await withClient(async (client) => {
      const transaction = createTransaction(client, send)
      const lost = Promise.withResolvers<never>()
      const onLost = (error: Error): void => lost.reject(translateError(error))
      // Safe to ignore: the statements fail with it too.
      lost.promise.catch(() => {})
      client.once('error', onLost)
      try {
        await transaction.unsafe(`BEGIN ${mode}`)
        // Work that waits for something else must not keep the place of a connection that is gone.
        const result = await Promise.race([work(transaction), lost.promise])
        // After a failed statement COMMIT rolls back, and reports no error.
        if ((await transaction`COMMIT`).command === 'COMMIT') return result
        throw new Error('the transaction was rolled back: one of its statements had failed')
      } catch (error) {
        // Safe to ignore: a connection that cannot roll back is closed, which does.
        await transaction`ROLLBACK`.catch(() => {})
        throw error
      } finally {
        client.off('error', onLost)
      }
    })
  }

  async function close (timeout = Infinity): Promise<void> {
    const waited = timeout === Infinity ? new Promise<never>(() => {}) : delay(timeout * 1000, undefined, { ref: false })
    await Promise.race([Promise.allSettled(running), waited])
    for (const client of busy) void client.end()
    await Promise.race([pool.end(), waited])
  }

  async function run (statement: Statement): Promise<Rows<any>> {
    const attempt = async (): Promise<Rows<any>> => await withClient(async (client) => await send(client, statement))
    return await attempt().catch(async (error: unknown) => {
      if (isStale(error)) return await attempt()
      throw error
    })
  }

  const sql: Sql = Object.assign(createTemplates(run), {
    begin, end: ({ timeout }: { timeout?: number } = {}) => (end ??= close(timeout)), onStatement: undefined
  })
  return sql
}

type Work<R> = (transaction: TransactionSql) => Promise<R>
type Send = (client: pg.PoolClient, statement: Statement) => Promise<Rows<any>>

function createTemplates (run: Run): SqlTemplates {
  const templates = (first: TemplateStringsArray | object, ...values: unknown[]): unknown =>
    'raw' in first ? new Statement(first as TemplateStringsArray, values, run) : new Columns(first)
  return Object.assign(templates as SqlTemplates, {
    json: (value: unknown) => JSON.stringify(value),
    unsafe: <T extends readonly object[]>(text: string, values: readonly unknown[] = []) => new Statement<T>([text], values, run)
  })
}

function createTransaction (client: pg.PoolClient, send: Send): TransactionSql {
  let last: Promise<unknown> = Promise.resolve()
  let savepoints = 0
  const inTurn = <R>(use: () => Promise<R>): Promise<R> => {
    const turn = last.then(use)
    last = turn.catch(() => {})
    return turn
  }
  const transaction: TransactionSql = Object.assign(createTemplates((statement) => inTurn(() => send(client, statement))), {
    async savepoint<R> (work: Work<R>): Promise<R> {
      const name = `s${++savepoints}`
      await transaction.unsafe(`SAVEPOINT ${name}`)
      try {
        const result = await work(transaction)
        await transaction.unsafe(`RELEASE SAVEPOINT ${name}`)
        return result
      } catch (error) {
        await transaction.unsafe(`ROLLBACK TO SAVEPOINT ${name}`)
        throw error
      }
    },
    copyTo: (text: string) => new Promise<Readable>((resolve) => {
      void inTurn(async () => {
        const source = client.query(copyTo(text))
        const bytes = source.pipe(new PassThrough())
        // The server sends all of it: what nobody reads any more still has to be passed over.
        bytes.once('close', () => source.resume())
        resolve(bytes)
        await finished(source).catch((error: Error) => { bytes.destroy(error) })
      })
    }),
    copyFrom: (text: string) => new Promise<Writable>((resolve) => {
      void inTurn(async () => {
        const target = client.query(copyFrom(text))
        resolve(target)
        // Told to whoever writes.
        await finished(target).catch(() => {})
      })
    })
  })
  return transaction
}

/** Names of prepared statements by their text. Lists with filters have many texts, and a server keeps each: at most so many. */
const NAMES = new Map<string, string>()
const MAX_NAMES = 500
let names = 0

function nameOf (text: string): string | undefined {
  let name = NAMES.get(text)
  if (name === undefined && NAMES.size < MAX_NAMES) NAMES.set(text, name = `m${++names}`)
  return name
}

/** A table was changed since the statement was prepared; prepared again, it runs. */
function isStale (error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.routine === 'RevalidateCachedQuery'
}

/** Values arrive as text. Counts stay far below 2^53 here and are numbers in the answers of the API; a date is its midnight in UTC. */
function getTypeParser (type: number, format?: 'text' | 'binary'): (value: any) => unknown {
  if (type === pg.types.builtins.INT8) return Number
  if (type === pg.types.builtins.DATE) return (text: string) => new Date(text)
  return pg.types.getTypeParser(type, format as 'text')
}

/** The pool's own limit would count the wait for a free connection too. */
class TimedClient extends pg.Client {
  constructor (config?: pg.ClientConfig) {
    // A server that is unavailable must be noticed well inside the 3 s after which flag clients give up.
    super({ ...config, connectionTimeoutMillis: 2000 })
  }
}

/** The driver's own errors have no code. A server that ends the connection says why with severity FATAL. */
function translateError (error: unknown): unknown {
  if (error instanceof PostgresConnectionError || !(error instanceof Error)) return error
  const isLost = error instanceof pg.DatabaseError
    ? error.severity === 'FATAL' && error.routine === 'ProcessInterrupts'
    : error.constructor === Error && !('code' in error)
  return isLost ? new PostgresConnectionError('CONNECTION_CLOSED', error) : error
}
