import { unquoteSql, quoteString } from '../statement/sql-lexer.ts'
import { denied } from '../query-errors.ts'
import type { CanonicalToken } from './canonical-query.ts'
import { closesQuery } from './judge-query.ts'

/** Where tools such as Grafana put what somebody filters by: conditions by table, in the closing clause. */
const SETTING = 'additional_table_filters'

/** A condition that is added to every reading of a table. */
export interface TableFilter {
  table: string
  condition: string
}

/**
 * Takes the filters by table out of a query.
 *
 * @returns the tokens without that setting, and without a SETTINGS of which nothing is left.
 * @throws {QueryError} 497 for filters of a subquery, and for anything but a map of literals.
 */
export function takeTableFilters (
  tokens: readonly CanonicalToken[]
): { tokens: CanonicalToken[], filters: TableFilter[] } {
  const at = tokens.findIndex(({ kind, text }, i) => kind === 'word' && text === SETTING && tokens[i + 1]?.text === '=')
  if (at === -1) return { tokens: [...tokens], filters: [] }
  const clause = tokens.findLastIndex(({ kind, text }, i) => i < at && kind === 'word' && text === 'SETTINGS')
  const end = tokens.findIndex(({ kind, text }, i) => i > at && kind === 'symbol' && text === '}')
  if (clause === -1 || !closesQuery(tokens, clause) || tokens[at + 2]?.text !== '{' || end === -1) throw denied(`${SETTING} here`)
  const filters: TableFilter[] = []
  for (let i = at + 3; i < end; i += 4) {
    const [table, colon, condition, comma] = tokens.slice(i, i + 4)
    const isPair = table?.kind === 'string' && colon?.text === ':' && condition?.kind === 'string' && (comma?.text === ',' || i + 3 === end)
    if (!isPair) throw denied(`${SETTING} other than a map of literals`)
    filters.push({ table: readLiteral(table), condition: readLiteral(condition) })
  }
  // With the comma behind it, or the one before; or with the word of the clause.
  const isLast = tokens[end + 1]?.text !== ','
  const [from, to] = isLast ? [at - 1, end + 1] : [at, end + 2]
  if (tokens.some(({ text }, i) => i >= to && text === SETTING)) throw denied(`${SETTING} twice`)
  return { tokens: [...tokens.slice(0, from), ...tokens.slice(to)], filters }
}

/** The setting's value, of conditions that were judged. */
export function writeTableFilters (filters: readonly TableFilter[]): [string, string] {
  return [SETTING, `{${filters.map(({ table, condition }) => `${quoteString(table)}:${quoteString(condition)}`).join()}}`]
}

/**
 * Only tables that an analyst may name anyway are filtered: a condition on another one, as behind a view of ours, would
 * tell what is in it.
 *
 * @throws {QueryError} 497.
 */
export function judgeFilteredTable (table: string, ownDatabases: ReadonlySet<string>): void {
  const [, database, name] = /^(?:(\w+)\.)?(\w+)$/.exec(table) ?? []
  if (name === undefined || (database !== undefined && !ownDatabases.has(database.toLowerCase()))) throw denied(`filters of table ${table}`)
}

function readLiteral ({ text }: CanonicalToken): string {
  return unquoteSql(Buffer.from(text, 'latin1').toString())
}
