import { type EngineSession } from '../engine/engine-session.ts'
import { quoteString } from '../sql/quote-sql.ts'

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

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

async function pause (ms: number): Promise<false> {
  return await new Promise((resolve) => { setTimeout(() => resolve(false), ms).unref() })
}
