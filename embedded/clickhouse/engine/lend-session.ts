/** The session of a query: the one that its client keeps by `session_id`, or any of its pool. */
import type { ServerParts } from '../start-server.ts'
import type { Query } from '../server.ts'
import { QueryError } from '../errors.ts'
import type { SessionRequest } from '../request/parse-request.ts'
import type { EngineSession } from './engine.ts'
import type { SessionPool } from './session-pool.ts'

interface Kept {
  session: EngineSession
  busy: boolean
  timer: NodeJS.Timeout | undefined
}

type Work<T> = (session: EngineSession) => Promise<T>

/**
 * Does work on a session in the state the query wants: the one its client keeps, or any of the pool's.
 *
 * @throws {QueryError} 202 when too many queries wait already, 394 when the query is cancelled while it waits.
 */
export async function withSession<T> (parts: ServerParts, query: Query, pool: SessionPool, work: Work<T>): Promise<T> {
  return await pool.during(query.stops.unwanted.signal, async () => {
    // An analyst's session can keep nothing but its current database, which clients name in each request.
    if (query.request.session === undefined || query.user === 'analyst') return await pool.with(query.state, work)
    return await withNamedSession(parts, query, pool, work)
  })
}

/**
 * Sessions that clients keep between requests by `session_id`: their SETs, their current database and their temporary
 * tables last until the session's timeout.
 */
export class NamedSessions {
  #kept = new Map<string, Kept>()
  #max: number

  constructor (max: number) {
    this.#max = max
  }

  /**
   * Takes a session for one query, opening it if need be.
   *
   * @throws {QueryError} 373 while another query uses it, 372 when it must exist and does not, 202 when there are
   *   too many.
   */
  async take (key: string, request: SessionRequest, open: () => Promise<EngineSession>): Promise<EngineSession> {
    const kept = this.#kept.get(key)
    if (kept?.busy === true) throw new QueryError(373, `Session ${request.id} is locked by a concurrent client`)
    if (kept !== undefined) {
      clearTimeout(kept.timer)
      kept.busy = true
      return kept.session
    }
    if (request.mustExist) throw new QueryError(372, `Session ${request.id} not found`)
    if (this.#kept.size >= this.#max) throw new QueryError(202, `Too many sessions: ${this.#max} are kept already`)
    const reserved: Kept = { session: undefined as unknown as EngineSession, busy: true, timer: undefined }
    this.#kept.set(key, reserved)
    try {
      reserved.session = await open()
      return reserved.session
    } catch (error) {
      this.#kept.delete(key)
      throw error
    }
  }

  /** Gives a session back; its timeout runs from now. */
  give (key: string, timeoutSeconds: number): void {
    const kept = this.#kept.get(key)
    if (kept === undefined) return
    kept.busy = false
    kept.timer = setTimeout(() => this.#drop(key), timeoutSeconds * 1000)
    kept.timer.unref()
  }

  close (): void {
    for (const key of [...this.#kept.keys()]) this.#drop(key)
  }

  #drop (key: string): void {
    const kept = this.#kept.get(key)
    this.#kept.delete(key)
    clearTimeout(kept?.timer)
    kept?.session?.close()
  }
}

async function withNamedSession<T> (parts: ServerParts, query: Query, pool: SessionPool, work: Work<T>): Promise<T> {
  const wanted = query.request.session!
  const key = `${query.user} ${wanted.id}`
  const session = await parts.named.take(key, wanted, async () => await pool.open(query.state))
  try {
    await session.moveTo(query.state)
    return await work(session)
  } finally {
    parts.named.give(key, wanted.timeoutSeconds)
  }
}
