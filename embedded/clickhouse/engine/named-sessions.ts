import { QueryError } from '../query-errors.ts'
import type { SessionRequest } from '../request/parse-request.ts'
import type { EngineSession } from './engine.ts'

interface Kept {
  session: EngineSession
  busy: boolean
  timer: NodeJS.Timeout | undefined
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
