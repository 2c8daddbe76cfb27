/** The session of a query: the one that its client keeps by `session_id`, or any of its pool. */
import type { Query, ServerParts } from '../server-parts.ts'
import type { EngineSession } from './engine.ts'
import type { SessionPool } from './session-pool.ts'

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
