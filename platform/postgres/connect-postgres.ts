import { PassThrough, type Readable, type Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import type { Logger } from '../logger.ts'
import { actors } from './actor.ts'
import { type Connection, createConnectionPool, PostgresConnectionError, translateError } from './connection-pool.ts'
import { Columns, compile, type Row, type Rows, type Run, Statement } from './sql-statement.ts'

export { type Row, Statement } from './sql-statement.ts'

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
  /** The bytes of a `COPY ... TO STDOUT`. The next statement waits for their end; destroying skips the rest. */
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
  /**
   * Waits for what runs, at most `timeout` seconds, then closes the pool. Later calls fail with
   * `MILLRACE_POSTGRES_POOL_CLOSED`.
   */
  end: (options?: { timeout?: number }) => Promise<void>
  /** Called with the text of each statement; for tests. */
  onStatement: ((text: string) => void) | undefined
}

export interface PostgresOptions {
  url: string
  max?: number
  connectTimeoutMs?: number
  statementTimeoutMs?: number
  logger?: Logger | undefined
}

/** A server that is unavailable must be noticed well inside the 3 s after which flag clients give up. */
export const CONNECT_TIMEOUT_MS = 2000

/**
 * Opens the pool for the metadata. Connections are made on first use, so this never throws for an absent server.
 * Statements fail with `DatabaseError` of the driver (its `code` is the SQLSTATE), with a
 * {@link PostgresConnectionError}, or with the error of the socket (`ECONNREFUSED`, ...).
 *
 * @param options.url        `postgres://user:password@host:port/database`, TLS by `?sslmode=verify-full`.
 * @param options.max        Connections at most; default 8.
 * @param options.connectTimeoutMs  How long it may take to establish a connection, in milliseconds: then what waits
 *   for it fails with MILLRACE_POSTGRES_CONNECTION_LOST. Default {@link CONNECT_TIMEOUT_MS}.
 * @param options.statementTimeoutMs  Longest wait for the answer to a statement, in milliseconds: then it fails with
 *   MILLRACE_POSTGRES_CONNECTION_LOST, and its connection is closed. The wait for a free connection is limited too.
 *   Default: none, as a backup may take its time.
 */
export function connectPostgres (options: PostgresOptions): Sql {
  const { url, max = 8, connectTimeoutMs = CONNECT_TIMEOUT_MS, statementTimeoutMs, logger } = options
  // One that waits may have to wait for a statement, and then for the connection that takes its place.
  const maxWaitMs = statementTimeoutMs === undefined ? 0 : statementTimeoutMs + connectTimeoutMs
  const pool = createConnectionPool({ url, max, connectTimeoutMs, maxWaitMs, logger })

  async function send (connection: Connection, statement: Statement): Promise<Rows<any>> {
    const { text, values } = compile(statement)
    sql.onStatement?.(text)
    const name = 'raw' in statement.parts ? nameOf(text) : undefined
    const cancel = (): void => connection.destroy()
    statement.onCancel = cancel
    const timer = statementTimeoutMs === undefined ? undefined : setTimeout(cancel, statementTimeoutMs)
    try {
      if (statement.isCancelled) throw new PostgresConnectionError('MILLRACE_POSTGRES_CONNECTION_LOST')
      const result = [await connection.query({ text, values, ...name === undefined ? {} : { name } })].flat().at(-1)!
      return Object.defineProperties(result.rows, {
        count: { value: result.rowCount ?? 0 }, command: { value: result.command }
      }) as Rows<any>
    } catch (error) {
      if (isStale(error)) NAMES.delete(text)
      const translated = translateError(error)
      if (translated instanceof PostgresConnectionError) connection.isLost = true
      throw translated
    } finally {
      statement.onCancel = undefined
      clearTimeout(timer)
    }
  }

  async function run (statement: Statement): Promise<Rows<any>> {
    if (actors.getStore() !== undefined && CHANGES.test(statement.parts[0] ?? '')) return await begin(async (tx) => await tx`${statement}`)
    const attempt = async (): Promise<Rows<any>> =>
      await pool.use(async (connection) => await send(connection, statement))
    return await attempt().catch(async (error: unknown) => {
      if (isStale(error)) return await attempt()
      throw error
    })
  }

  async function begin<R> (...[first, second]: [string, Work<R>] | [Work<R>]): Promise<R> {
    const [mode, work] = typeof first === 'string' ? [first, second!] : ['', first]
    return await pool.use(async (connection) => {
      const transaction = createTransaction(connection, send)
      const lost = Promise.withResolvers<never>()
      const onLost = (error: Error): void => lost.reject(translateError(error))
      // Safe to ignore: the statements fail with it too.
      lost.promise.catch(() => {})
      connection.once('error', onLost)
      try {
        await transaction.unsafe(`BEGIN ${mode}`)
        const actor = actors.getStore()
        if (actor !== undefined) await transaction`SELECT set_config('millrace.actor', ${JSON.stringify(actor)}, true)`
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
        connection.off('error', onLost)
      }
    })
  }

  const sql: Sql = Object.assign(createTemplates(run), {
    begin, end: async ({ timeout }: { timeout?: number } = {}) => await pool.end(timeout), onStatement: undefined
  })
  return sql
}

const CHANGES = /^\s*(?:INSERT|UPDATE|DELETE|WITH)\b/i

type Work<R> = (transaction: TransactionSql) => Promise<R>
type Send = (connection: Connection, statement: Statement) => Promise<Rows<any>>

function createTemplates (run: Run): SqlTemplates {
  const templates = (first: TemplateStringsArray | object, ...values: unknown[]): unknown =>
    'raw' in first ? new Statement(first as TemplateStringsArray, values, run) : new Columns(first)
  return Object.assign(templates as SqlTemplates, {
    json: (value: unknown) => JSON.stringify(value),
    unsafe: <T extends readonly object[]>(text: string, values: readonly unknown[] = []) =>
      new Statement<T>([text], values, run)
  })
}

function createTransaction (connection: Connection, send: Send): TransactionSql {
  let last: Promise<unknown> = Promise.resolve()
  let savepoints = 0
  const inTurn = <R>(use: () => Promise<R>): Promise<R> => {
    const turn = last.then(use)
    last = turn.catch(() => {})
    return turn
  }
  const run: Run = (statement) => inTurn(async () => await send(connection, statement))
  const transaction: TransactionSql = Object.assign(createTemplates(run), {
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
        const source = connection.query(copyTo(text))
        const bytes = source.pipe(new PassThrough())
        // The server sends all of it: what nobody reads any more still has to be passed over.
        bytes.once('close', () => source.resume())
        resolve(bytes)
        await finished(source).catch((error: Error) => { bytes.destroy(error) })
      })
    }),
    copyFrom: (text: string) => new Promise<Writable>((resolve) => {
      void inTurn(async () => {
        const target = connection.query(copyFrom(text))
        resolve(target)
        // The writer gets the error.
        await finished(target).catch(() => {})
      })
    })
  })
  return transaction
}

/** Names of prepared statements by text. Lists with filters have many texts, and each connection keeps every one. */
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
