import { buildInsertFrom, ENGINE_COMPRESSIONS } from '../sql/build-statement.ts'
import { checkParams } from '../sql/check-params.ts'
import { QueryError } from '../errors.ts'
import { type ServerParts } from '../server-parts.ts'
import { type Query } from '../handle-query.ts'
import { lexSql } from '../sql/lex-sql.ts'
import { type InsertBody, type InsertRows } from '../request/read-body.ts'
import { spoolBody, type SpooledBody } from './spool-body.ts'
import { summarizeInsert } from '../summarize.ts'
import { withSession } from '../engine/with-session.ts'

/**
 * Runs an INSERT whose rows came with the request: the rows go to a file unread, and the engine reads the file.
 *
 * Rows never travel as text of a query: the engine's console would run what follows an empty line as a statement of
 * its own. The insert is run only when the body is complete, and then to its end, even if the client goes away.
 */
export async function runInsert (parts: ServerParts, query: Query, insert: InsertBody): Promise<void> {
  checkParams(insert.head, lexSql(insert.head), query.request.params)
  const body = await spoolRows(parts, insert.rows)
  try {
    const result = await withSession(parts, query, parts.pools.insert, async (session) => {
      await session.setParams(query.request.params)
      const compression = ENGINE_COMPRESSIONS[insert.rows.encoding ?? ''] ?? 'none'
      const running = session.run(buildInsertFrom(insert, body.path, compression))
      return await parts.killQuery.whenAborted(session, query.stops.killed.signal, running)
    })
    await parts.tokens.flush()
    query.answer.start(summarizeInsert(query.record, result))
    query.answer.end()
  } finally {
    body.remove()
  }
}

async function spoolRows (parts: ServerParts, rows: InsertRows): Promise<SpooledBody> {
  const { encoding } = rows
  if (encoding !== undefined && ENGINE_COMPRESSIONS[encoding] === undefined) {
    throw new QueryError(344, `Content-Encoding ${encoding} is not supported`)
  }
  return await spoolBody(parts.spool, rows)
}
