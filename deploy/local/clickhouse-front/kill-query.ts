import { type EngineSession } from './engine-session.ts'
import { quoteString } from './quote-sql.ts'

/** Ends the query that a session is running, from another session. Resolves when the query has ended. */
export type KillQuery = (session: EngineSession, ended: Promise<unknown>) => Promise<void>

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

/**
 * Asks again until the query is gone, as a query that has only just begun may not be listed yet.
 *
 * Never SYNC: that waits inside the engine, and has been seen to hang the process.
 *
 * @param control  A session that runs nothing else.
 */
export function createKillQuery (control: EngineSession): KillQuery {
  return async function killQuery (session, ended) {
    const end = ended.then(() => true, () => true)
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      await control.run(`KILL QUERY WHERE Settings['log_comment'] = ${quoteString(session.mark)} ASYNC`)
      if (await Promise.race([end, pause(pauseMs)])) return
    }
  }
}

async function pause (ms: number): Promise<false> {
  return await new Promise((resolve) => { setTimeout(() => resolve(false), ms).unref() })
}
