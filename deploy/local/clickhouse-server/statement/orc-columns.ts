/** Format ORC for columns with a UUID, which the engine refuses: they become text. */
import { quoteIdentifier, quoteString } from '../../../../schema/clickhouse-sql.ts'
import type { EngineSession } from '../engine/engine.ts'
import { readStatement, type Statement } from './statement.ts'

/**
 * The SELECT with its UUIDs, those inside of arrays and tuples too, written as text; the same when it has none.
 *
 * @throws the engine's error for a SELECT that cannot run.
 */
export async function withoutUuids (session: EngineSession, statement: Statement): Promise<Statement> {
  const inner = withoutFormat(statement)
  const { bytes } = await session.run(`DESCRIBE (${inner}\n)`, 'JSONCompactEachRow')
  const columns = Buffer.from(bytes).toString().trim().split('\n').filter((line) => line !== '')
    .map((line) => JSON.parse(line) as [name: string, type: string])
  const casts = columns.filter(([, type]) => /\bUUID\b/.test(type)).map(([name, type]) =>
    `CAST(${quoteIdentifier(name)}, ${quoteString(type.replaceAll(/\bUUID\b/g, 'String'))}) AS ${quoteIdentifier(name)}`)
  if (casts.length === 0) return statement
  return { ...readStatement(`SELECT * REPLACE (${casts.join(', ')}) FROM (${inner}\n)`), kind: statement.kind }
}

/** A closing SETTINGS clause stays: it may stand in a subquery, too. */
function withoutFormat ({ sql, format }: Statement): string {
  return format === undefined ? sql : sql.slice(0, format.start) + sql.slice(format.end)
}
