import type { EngineSession } from '../engine/engine.ts'
import { ANALYST_PROFILE } from '../engine/profiles.ts'
import { OVERDUE_MS } from '../engine/session-pool.ts'
import { QueryError } from '../http/query-errors.ts'
import type { Query } from '../server-parts.ts'

/** How long a query may go on in the engine after its limit. With what a restart takes, it ends within five seconds. */
const RESTART_AFTER_MS = 2500

/**
 * Ends a query that is over its time. The engine looks for that between two blocks of rows, and one block, or a
 * constant, may take long: first the query is killed and its client has its answer, then the process is restarted.
 *
 * @param restart  The last resort, for a query that is still at work.
 * @returns what ends the watch.
 */
export function endOvertime ({ state, stops }: Query, session: EngineSession, restart: () => void): () => void {
  const limitMs = 1000 * Number(state.settings.get('max_execution_time') ?? ANALYST_PROFILE.max_execution_time)
  const whenRunning = (afterMs: number, act: () => void): NodeJS.Timeout =>
    setTimeout(() => { if (session.isRunning) act() }, limitMs + afterMs)
  const timers = [
    whenRunning(OVERDUE_MS, () => stops.unwanted.abort(new QueryError(159, `Timeout exceeded: maximum: ${limitMs} ms`))),
    whenRunning(RESTART_AFTER_MS, restart)
  ]
  return () => timers.forEach(clearTimeout)
}
