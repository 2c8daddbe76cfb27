import { type ServerParts } from '../server-parts.ts'
import { quoteString } from '../sql/quote-sql.ts'
import { readStatement, type Statement } from '../sql/read-statement.ts'

/**
 * Carries out the commands that concern what only the server knows, and puts a SELECT of their answer in their place:
 * `KILL QUERY WHERE query_id = '...'` (the engine has other ids) and `SYSTEM FLUSH LOGS`.
 */
export async function replaceServerCommand (parts: ServerParts, statement: Statement): Promise<Statement> {
  const { tokens } = statement
  const words = tokens.map((token) => token.text)
  if (words.slice(0, 3).join(' ') === 'SYSTEM FLUSH LOGS') {
    await parts.queryLog.flush()
    return readStatement('SELECT 1 WHERE 0')
  }
  const id = tokens[5]
  if (words.slice(0, 5).join(' ') !== 'KILL QUERY WHERE QUERY_ID =' || id?.kind !== 'string') return statement
  const rest = words.slice(6).filter((word, i) => i > 0 || word !== 'ASYNC')
  if (rest.length > 0 && rest[0] !== 'FORMAT') return statement

  const queryId = id.text.slice(1, -1)
  const killed = parts.running.kill(queryId)
  const found = killed === undefined ? 0 : 1
  const format = statement.format === undefined ? '' : `FORMAT ${statement.format.name}`
  return readStatement(`SELECT 'waiting' AS kill_status, ${quoteString(queryId)} AS query_id,
    ${quoteString(killed?.user ?? '')} AS user, ${quoteString(killed?.query ?? '')} AS query WHERE ${found} ${format}`)
}
