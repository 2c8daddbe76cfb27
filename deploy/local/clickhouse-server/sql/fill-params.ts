import { quoteString } from './quote-sql.ts'
import { type Token } from './lex-sql.ts'

/** Types whose values stand in SQL as they are sent. */
const PLAIN = /^(U?INT\d+|FLOAT\d+|DECIMAL\w*|BOOL|IDENTIFIER|ARRAY|MAP|TUPLE)$/

/**
 * The statement with the values of its parameters in their places, as a server writes it into its log. For people and
 * statistics: it is never run.
 */
export function fillParams (sql: string, tokens: readonly Token[], params: ReadonlyMap<string, string>): string {
  let text = ''
  let at = 0
  tokens.forEach((token, i) => {
    const [, name, colon, type] = tokens.slice(i, i + 4)
    if (token.text !== '{' || name?.kind !== 'word' || colon?.text !== ':' || type === undefined) return
    const close = tokens.slice(i + 4).find(({ text }) => text === '}')
    const value = params.get(sql.slice(name.start, name.end))
    if (close === undefined || value === undefined) return
    text += sql.slice(at, token.start) + (PLAIN.test(type.text) ? value : quoteString(unescapeValue(value)))
    at = close.end
  })
  return text + sql.slice(at)
}

const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', 0: '\0' }

/** Values come escaped as in a file of format TSV. */
function unescapeValue (value: string): string {
  return value.replaceAll(/\\([\s\S])/g, (_, char: string) => ESCAPES[char] ?? char)
}
