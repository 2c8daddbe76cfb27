import { type SqlToken, tokenizeSql } from '../../engines/sql/clickhouse-sql.ts'

/**
 * A query as ClickHouse gets it: a closing `FORMAT name` and semicolons become blanks, because the asker chooses the
 * format, and positions in errors stay true.
 */
export function blankFormat (query: string): string {
  const tokens = tokenizeSql(query).filter(({ kind }) => kind !== 'comment')
  const isEnd = (token: SqlToken | undefined): boolean => token === undefined || token.text === ';'
  const blanks: SqlToken[] = []
  for (let at = tokens.length - 1; tokens[at]?.text === ';'; at--) blanks.push(tokens[at]!)
  const format = tokens.findLastIndex(({ kind, text }, at) => kind === 'word' && text === 'FORMAT' && at > 0 &&
    tokens[at - 1]!.text !== '.' && tokens[at - 1]!.text !== 'AS' && tokens[at + 1]?.kind === 'word' &&
    (isEnd(tokens[at + 2]) || tokens[at + 2]!.text === 'SETTINGS'))
  if (format !== -1) blanks.push(tokens[format]!, tokens[format + 1]!)
  let text = query
  for (const { start, end } of blanks) text = text.slice(0, start) + ' '.repeat(end - start) + text.slice(end)
  return text
}
