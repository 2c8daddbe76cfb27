/** Queries while they run: found by their id, ended on demand, and their progress sampled. */
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

/** Ends queries of other sessions from a session of its own. */
export class KillQuery {
  #control: EngineSession

  /** @param control  A session that runs nothing else. */
  constructor (control: EngineSession) {
    this.#control = control
  }

  /**
   * Ends the query that a session is running; resolves when it has ended.
   *
   * Asks again until the query is gone, as one that has only just begun may not be listed yet. Never SYNC: that waits
   * inside the engine, and has been seen to hang the process.
   */
  async kill (session: EngineSession, ended: Promise<unknown>): Promise<void> {
    const end = ended.then(() => true, () => true)
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      await this.#control.run(`KILL QUERY WHERE Settings['log_comment'] = ${quoteString(session.mark)} ASYNC`)
      if (await Promise.race([end, pause(pauseMs)])) return
    }
  }

  /** Waits for a query, and ends it when the signal fires. The session is free again when this resolves. */
  async whenAborted<T> (session: EngineSession, signal: AbortSignal, query: Promise<T>): Promise<T> {
    let killing: Promise<void> | undefined
    const onAbort = (): void => { killing ??= this.kill(session, query) }
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    try {
      return await query
    } finally {
      signal.removeEventListener('abort', onAbort)
      await killing
    }
  }
}

/**
 * Samples what the running queries have read.
 *
 * Why by sampling: the engine tells how many rows a query gave, but not how many it read, once it has ended. So a
 * query of less than half a second shows what it gave; of a longer one, at most the last half second is missing.
 */
export class ProgressSampler {
  #session: EngineSession
  #logger: Logger
  #watched = new Map<string, QueryProgress>()
  #timer: NodeJS.Timeout | undefined

  constructor (session: EngineSession, logger: Logger) {
    this.#session = session
    this.#logger = logger
  }

  /** Does work on a session and keeps its progress in the given record. */
  async during<T> (session: EngineSession, progress: QueryProgress, work: () => Promise<T>): Promise<T> {
    this.#watched.set(session.mark, progress)
    this.#timer ??= setInterval(() => { void this.#sample() }, SAMPLE_INTERVAL_MS).unref()
    try {
      return await work()
    } finally {
      this.#watched.delete(session.mark)
      if (this.#watched.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  async #sample (): Promise<void> {
    try {
      const { bytes } = await this.#session.run(SELECT_PROGRESS)
      for (const line of Buffer.from(bytes).toString().trim().split('\n')) {
        const [mark = '', ...counts] = line.split('\t')
        const [readRows, readBytes, memoryUsage, totalRows] = counts.map(Number)
        Object.assign(this.#watched.get(mark) ?? {}, { readRows, readBytes, memoryUsage, totalRows })
      }
    } catch (err) {
      this.#logger.warn({ err }, 'could not read the progress of queries')
    }
  }
}

async function pause (ms: number): Promise<false> {
  return await new Promise((resolve) => { setTimeout(() => resolve(false), ms).unref() })
}
