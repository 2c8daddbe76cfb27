/** Queries while they run: found by their id, ended on demand, and their progress sampled. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from '../json-log.ts'
import { QueryError } from '../http/query-errors.ts'
import type { QueryRecord } from './query-record.ts'
import type { EngineSession } from './engine.ts'
import { quoteString } from '../statement/sql-lexer.ts'

/** How a running query can be stopped. One pair of controllers per query: composed signals would outlive it. */
export interface Stops {
  /** Nobody waits for the answer: the client has gone or stopped reading, the server stops, or the query was killed. */
  unwanted: AbortController
  /** The query was killed by its id. */
  killed: AbortController
}

/** What a running query has used so far. */
type QueryProgress = Pick<QueryRecord, 'readRows' | 'readBytes' | 'memoryUsage' | 'totalRows'>

/** Maximum requests at once, including those whose body is being uploaded; each may occupy a file of the spool. */
const MAX_REQUESTS = 256

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

/** Most queries are over before the first sample, and cost nothing here. */
const SAMPLE_INTERVAL_MS = 500

const SELECT_PROGRESS = `SELECT Settings['log_comment'], read_rows, read_bytes, peak_memory_usage, total_rows_approx
FROM system.processes WHERE elapsed > 0.2`

/** The queries that run, by the id their client gave them or was told. The engine knows other ids. */
export class RunningQueries {
  /** Requests that have no answer yet. */
  unanswered = 0
  #queries = new Map<string, { record: QueryRecord, stops: Stops }>()

  get size (): number {
    return this.#queries.size
  }

  /**
   * Runs work under an id.
   *
   * @throws {QueryError} 216 while another query has the id, 202 when too many are in hand.
   */
  async during (id: string, record: QueryRecord, stops: Stops, work: () => Promise<void>): Promise<void> {
    if (this.#queries.has(id)) throw new QueryError(216, `Query with id = ${id} is already running`)
    if (this.#queries.size >= MAX_REQUESTS) throw new QueryError(202, `Too many simultaneous queries. Maximum: ${MAX_REQUESTS}`)
    this.#queries.set(id, { record, stops })
    try {
      await work()
    } finally {
      this.#queries.delete(id)
    }
  }

  records (): QueryRecord[] {
    return [...this.#queries.values()].map(({ record }) => record)
  }

  /** Ends a query; undefined when none has the id. */
  kill (id: string): QueryRecord | undefined {
    const running = this.#queries.get(id)
    running?.stops.killed.abort()
    running?.stops.unwanted.abort()
    return running?.record
  }

  /** Ends all that only reads, and all that waits for a session; `why` is their error. */
  stopReads (why: QueryError): void {
    for (const { stops } of this.#queries.values()) stops.unwanted.abort(why)
  }
}

export type KillQuery = ReturnType<typeof createKillQuery>

/**
 * Ends queries of other sessions from a session of its own.
 *
 * @param control  A session that runs nothing else.
 */
export function createKillQuery (control: EngineSession) {
  /**
   * Ends the query that a session is running; resolves when it has ended.
   *
   * Asks again until the query is gone, as one that has only just begun may not be listed yet. Never SYNC: that waits
   * inside the engine, and has been seen to hang the process.
   */
  async function kill (session: EngineSession, ended: Promise<unknown>): Promise<void> {
    const end = ended.then(() => true, () => true)
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      await control.run(`KILL QUERY WHERE Settings['log_comment'] = ${quoteString(session.mark)} ASYNC`)
      if (await Promise.race([end, pause(pauseMs, false, { ref: false })])) return
    }
  }

  /** Waits for a query, and ends it when the signal fires. The session is free again when this resolves. */
  async function whenAborted<T> (session: EngineSession, signal: AbortSignal, query: Promise<T>): Promise<T> {
    let killing: Promise<void> | undefined
    const onAbort = (): void => { killing ??= kill(session, query) }
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    try {
      return await query
    } finally {
      signal.removeEventListener('abort', onAbort)
      await killing
    }
  }

  return { kill, whenAborted }
}

export type ProgressSampler = ReturnType<typeof createProgressSampler>

/**
 * Samples what the running queries have read.
 *
 * Why by sampling: the engine tells how many rows a query gave, but not how many it read, once it has ended. So a
 * query of less than half a second shows what it gave; of a longer one, at most the last half second is missing.
 */
export function createProgressSampler (own: EngineSession, logger: Logger) {
  const watched = new Map<string, QueryProgress>()
  let timer: NodeJS.Timeout | undefined

  /** Does work on a session and keeps its progress in the given record. */
  async function during<T> (session: EngineSession, progress: QueryProgress, work: () => Promise<T>): Promise<T> {
    watched.set(session.mark, progress)
    timer ??= setInterval(() => { void sample() }, SAMPLE_INTERVAL_MS).unref()
    try {
      return await work()
    } finally {
      watched.delete(session.mark)
      if (watched.size === 0) {
        clearInterval(timer)
        timer = undefined
      }
    }
  }

  async function sample (): Promise<void> {
    try {
      const { bytes } = await own.run(SELECT_PROGRESS)
      for (const line of Buffer.from(bytes).toString().trim().split('\n')) {
        const [mark = '', ...counts] = line.split('\t')
        const [readRows, readBytes, memoryUsage, totalRows] = counts.map(Number)
        Object.assign(watched.get(mark) ?? {}, { readRows, readBytes, memoryUsage, totalRows })
      }
    } catch (err) {
      logger.warn({ err }, 'could not read the progress of queries')
    }
  }

  return { during }
}
