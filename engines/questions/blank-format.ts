import { type SqlToken, tokenizeSql } from 'chdb-server/sql-lexer'

/**
 * A query as ClickHouse gets it: a closing `FORMAT name` and semicolons become blanks, because the asker chooses the
 * format, and positions in errors stay true.
 */
export function blankFormat (query: string): string {
  const tokens = tokenizeSql(query).filter(({ kind }) => kind !== 'comment')
  const isEnd = (token: SqlToken | undefined): boolean => token === undefined || token.text === ';'
  const blanks: SqlToken[] = []
  for (const token of tokens.toReversed()) {
    if (token.text !== ';') break
    blanks.push(token)
  }
  const format = tokens.findLastIndex(({ kind, text }, at) => kind === 'word' && text === 'FORMAT' && at > 0 &&
    !['.', 'AS'].includes(tokens[at - 1]?.text ?? '') && tokens[at + 1]?.kind === 'word' &&
    (isEnd(tokens[at + 2]) || tokens[at + 2]?.text === 'SETTINGS'))
  if (format !== -1) blanks.push(...tokens.slice(format, format + 2))
  let text = query
  for (const { start, end } of blanks) text = text.slice(0, start) + ' '.repeat(end - start) + text.slice(end)
  return text
}
