import { QueryError } from '../errors.ts'
import { type Token } from './lex-sql.ts'

/**
 * Refuses a statement that names a parameter (`{name:Type}`) the request does not give.
 *
 * The engine would say the same, but its sessions are shared: a parameter that an earlier request left there must not
 * be seen by a later one.
 *
 * @throws {QueryError} 456 for a parameter without a value, 36 for a value whose name cannot be one.
 */
export function checkParams (sql: string, tokens: readonly Token[], params: ReadonlyMap<string, string>): void {
  for (const name of params.keys()) {
    if (!/^\w{1,128}$/.test(name)) throw new QueryError(36, `Query parameter name '${name}' is not valid`)
  }
  tokens.forEach((token, i) => {
    const name = tokens[i + 1]
    if (token.text !== '{' || name?.kind !== 'word' || tokens[i + 2]?.text !== ':') return
    const text = sql.slice(name.start, name.end)
    if (!params.has(text)) throw new QueryError(456, `Query parameter \`${text}\` was not set`)
  })
}
