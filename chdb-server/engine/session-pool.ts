import { QueryError } from '../http/query-errors.ts'
import type { Engine, EngineSession, SessionState } from './engine.ts'
import type { Settings } from './profiles.ts'

export interface PoolOptions {
  /** For the error when the queue is full. */
  name: string
  /** Queries that run at the same time. Each needs a thread of the process's pool while it runs. */
  size: number
  /** Queries that may wait for a free session. */
  maxWaiting: number
  /**
   * Queries that may go on beside these, although nobody waits for them any more: the engine ends a query only between
   * two blocks of rows. 0 by default.
   */
  maxOverdue?: number
  /** Set once on every session of the pool. With `readonly` the pool never changes a session, but opens another. */
  settings: Settings
}

/** How long an ended query may take to end, in milliseconds, before nobody waits for it any more. */
export const OVERDUE_MS = 500

/**
 * The sessions of one class of queries. A class of its own for inserts, for the owner's reads and for analysts means
 * that none of them waits for another's sessions.
 */
export class SessionPool {
  #engine: Engine
  #options: PoolOptions
  #idle: EngineSession[] = []
  #running = 0
  #overdue = 0
  #waiting: Array<() => void> = []

  constructor (engine: Engine, options: PoolOptions) {
    this.#engine = engine
    this.#options = options
  }

  /**
   * Takes a permit, waiting for one if need be.
   *
   * @throws {QueryError} 202 when too many wait already; 394 when the signal fires while waiting.
   */
  async enter (signal: AbortSignal): Promise<void> {
    if (this.#running < this.#options.size) {
      this.#running++
      return
    }
    if (this.#waiting.length >= this.#options.maxWaiting) {
      throw new QueryError(202, `Too many simultaneous queries. Maximum: ${this.#options.size} running and ${this.#options.maxWaiting} waiting for ${this.#options.name}`)
    }
    await new Promise<void>((resolve, reject) => {
      const turn = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(turn), 1)
        reject(new QueryError(394, 'Query was cancelled while it waited for a session'))
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(turn)
      if (signal.aborted) leave()
    })
  }

  /** Gives the permit to the next in the queue. */
  leave (): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#running--
    else next()
  }

  /**
   * Does work on a session in the wanted state, under a permit. When the signal fires and the work goes on, its place
   * is given to the next one.
   *
   * @throws {QueryError} 202 when too many wait already; 394 when the signal fires while waiting.
   */
  async lend<T> (signal: AbortSignal, state: SessionState, work: (session: EngineSession) => Promise<T>): Promise<T> {
    await this.enter(signal)
    let isOverdue = false
    let timer: NodeJS.Timeout | undefined
    const giveUp = (): void => {
      if (isOverdue || this.#overdue >= (this.#options.maxOverdue ?? 0)) return
      isOverdue = true
      this.#overdue++
      this.leave()
    }
    const onAbort = (): void => { timer = setInterval(giveUp, OVERDUE_MS).unref() }
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    try {
      return await this.#with(state, work)
    } finally {
      signal.removeEventListener('abort', onAbort)
      clearInterval(timer)
      if (isOverdue) this.#overdue--
      else this.leave()
    }
  }

  async #with<T> (state: SessionState, work: (session: EngineSession) => Promise<T>): Promise<T> {
    const session = await this.#take(state)
    try {
      await session.moveTo(state)
      return await work(session)
    } catch (error) {
      await session.releaseTables()
      throw error
    } finally {
      if (session.dirty) session.close()
      else this.#idle.push(session)
    }
  }

  close (): void {
    for (const session of this.#idle.splice(0)) session.close()
  }

  async #take (state: SessionState): Promise<EngineSession> {
    const same = this.#idle.findIndex((session) => session.isAt(state))
    if (same !== -1) return this.#idle.splice(same, 1)[0]!
    const { settings, size } = this.#options
    const isReadOnly = 'readonly' in settings
    // A read-only session cannot be changed; make room for the new one.
    if (isReadOnly && this.#idle.length >= size) this.#idle.shift()!.close()
    return (isReadOnly ? undefined : this.#idle.pop()) ??
      await this.#engine.openSession(settings, isReadOnly ? state.settings : undefined)
  }
}
