import { FrontError } from './errors.ts'
import { type QueryRecord } from './query-log.ts'

/** The queries that run, by the id their client gave them or was told. The engine knows other ids. */
export class RunningQueries {
  #queries = new Map<string, { record: QueryRecord, kill: AbortController }>()

  get size (): number {
    return this.#queries.size
  }

  /**
   * Runs work under an id.
   *
   * @throws {FrontError} 216 while another query has the id.
   */
  async during (id: string, record: QueryRecord, work: (killed: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#queries.has(id)) throw new FrontError(216, `Query with id = ${id} is already running`)
    const kill = new AbortController()
    this.#queries.set(id, { record, kill })
    try {
      await work(kill.signal)
    } finally {
      this.#queries.delete(id)
    }
  }

  /** Ends a query; undefined when none has the id. */
  kill (id: string): QueryRecord | undefined {
    const running = this.#queries.get(id)
    running?.kill.abort()
    return running?.record
  }
}
