import { QueryError } from '../errors.ts'
import { type QueryRecord } from './query-log.ts'

/** How a running query can be stopped. One pair of controllers a query: composed signals would outlive it. */
export interface Stops {
  /** Nobody waits for the answer any more: the client has gone, the server stops, or the query was killed. */
  unwanted: AbortController
  /** The query was killed by its id. */
  killed: AbortController
}

/** Requests in hand at once, uploads of bodies included; each may hold a file of the spool. */
const MAX_REQUESTS = 256

/** The queries that run, by the id their client gave them or was told. The engine knows other ids. */
export class RunningQueries {
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

  /** Ends a query; undefined when none has the id. */
  kill (id: string): QueryRecord | undefined {
    const running = this.#queries.get(id)
    running?.stops.killed.abort()
    running?.stops.unwanted.abort()
    return running?.record
  }

  /** Ends all that only reads, and all that waits for a session. */
  stopReads (): void {
    for (const { stops } of this.#queries.values()) stops.unwanted.abort()
  }
}
