import { type EngineSession } from './engine-session.ts'
import { type ServerParts } from '../server-parts.ts'
import { type Query } from '../handle-query.ts'
import { type SessionPool } from './session-pool.ts'

type Work<T> = (session: EngineSession) => Promise<T>

/**
 * Does work on a session in the state the query wants: the one its client keeps, or any of the pool's.
 *
 * @throws {QueryError} 202 when too many queries wait already, 394 when the query is given up while it waits.
 */
export async function withSession<T> (parts: ServerParts, query: Query, pool: SessionPool, work: Work<T>): Promise<T> {
  await pool.enter(query.stops.unwanted.signal)
  try {
    // An analyst's session can keep nothing but its current database, which clients name in each request.
    if (query.request.session === undefined || query.user === 'analyst') return await pool.with(query.state, work)
    return await withNamedSession(parts, query, pool, work)
  } finally {
    pool.leave()
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
