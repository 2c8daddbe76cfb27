import type { ServerResponse } from 'node:http'
import { tokenizeSql } from '../statement/sql-lexer.ts'
import { buildInsertFrom, checkParams, ENGINE_COMPRESSIONS } from '../statement/read-statement.ts'
import { QueryError } from '../http/query-errors.ts'
import type { Query, ServerParts } from '../server-parts.ts'
import type { InsertBody } from '../http/read-query-body.ts'
import { spoolBody } from '../engine/body-spool.ts'
import { summarize } from '../engine/query-record.ts'
import type { User } from '../http/authenticate.ts'
import { POOL_SIZES } from '../engine/profiles.ts'
import type { SessionPool } from '../engine/session-pool.ts'

/** Longest hold, and longest wait for one. Writers wait meanwhile, and time out much later. */
const HOLD_MS = 30_000

/**
 * Runs an INSERT whose rows came with the request: the rows go to a file unread, and the engine reads the file.
 *
 * Rows never travel as text of a query: the engine's console would run what follows an empty line as a statement of
 * its own. The insert is run only when the body is complete, and then to its end, even if the client goes away.
 */
export async function runInsert (parts: ServerParts, query: Query, insert: InsertBody): Promise<void> {
  checkParams(insert.head, tokenizeSql(insert.head), query.request.params)
  const { encoding } = insert.rows
  const compression = encoding === undefined ? 'none' : ENGINE_COMPRESSIONS.get(encoding)
  if (compression === undefined) throw new QueryError(344, `Content-Encoding ${encoding} is not supported`)
  const body = await spoolBody(parts.storage.spool, insert.rows)
  try {
    const result = await parts.storage.pools.insert.lend(query.stops.unwanted.signal, query.state, async (session) => {
      await session.setParams(query.request.params)
      query.record.mark = session.mark
      const running = session.run(buildInsertFrom(insert, body.path, compression))
      return await parts.queries.killQuery.whenAborted(session, query.stops.killed.signal, running)
    })
    await parts.storage.tokens.flush()
    await parts.storage.failedWrites.check()
    query.answer.setHeader('Content-Type', 'text/plain; charset=UTF-8')
    query.answer.start(summarize(query.record, result, { isInsert: true }))
    await query.answer.end()
  } finally {
    body.remove()
  }
}

/**
 * `POST /hold-inserts`: waits until no insert runs, answers `held`, and lets no insert begin until the client closes
 * the connection. One client at a time; others wait. A backup takes its snapshot meanwhile: an insert is in the table
 * and in every view of it, or in none.
 *
 * @throws {QueryError} 164 for analysts.
 */
export async function holdInserts (parts: ServerParts, user: User, response: ServerResponse): Promise<void> {
  if (user === 'analyst') throw new QueryError(164, 'analyst: Cannot hold inserts in readonly mode')
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  const timer = setTimeout(() => response.destroy(), HOLD_MS)
  const { holds, insert } = parts.storage.pools
  const entered: SessionPool[] = []
  try {
    // All permits of the pool: what entered before runs to its end first. Of two holds each would wait for the other's.
    for (const pool of [holds, ...Array.from({ length: POOL_SIZES.insert.size }, () => insert)]) {
      await pool.enter(gone.signal)
      entered.push(pool)
    }
    timer.refresh()
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.write('held\n')
    await new Promise<void>((resolve) => {
      gone.signal.addEventListener('abort', () => resolve(), { once: true })
      if (gone.signal.aborted) resolve()
    })
  } finally {
    clearTimeout(timer)
    for (const pool of entered) pool.leave()
  }
}
