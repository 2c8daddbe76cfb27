/**
 * A piece of a query. `word` is an unquoted keyword or name, `name` a quoted one, `text` a string literal; both without
 * quotes and escapes.
 */
export interface QueryToken {
  kind: 'word' | 'name' | 'text' | 'number' | 'symbol'
  text: string
}

const PARTS = [
  String.raw`(?<space>\s+|--[^\n]*|#[ !][^\n]*|/\*[\s\S]*?(?:\*/|$))`,
  String.raw`'(?<text>(?:[^'\\]|\\[\s\S]|'')*)'?`,
  String.raw`\$(?<tag>\w*)\$(?<here>[\s\S]*?)\$\k<tag>\$`,
  '`(?<backtick>(?:[^`\\\\]|\\\\[\\s\\S]|``)*)`?',
  String.raw`"(?<double>(?:[^"\\]|\\[\s\S]|"")*)"?`,
  String.raw`(?<number>\d[\w.]*)`,
  String.raw`(?<word>[\p{L}_$][\p{L}\p{N}_$]*)`,
  String.raw`(?<symbol>[\s\S])`
]
const TOKEN = new RegExp(PARTS.join('|'), 'gu')

const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', 0: '\0' }

/**
 * Cuts a query that a ClickHouse ran into pieces, comments left out. For statistics: it takes any text, also one that a
 * log has cut short, and decides nothing about what may run.
 */
export function tokeniseQuery (query: string): QueryToken[] {
  const tokens: QueryToken[] = []
  for (const { groups = {} } of query.matchAll(TOKEN)) {
    const { text, here, backtick, double, number, word, symbol } = groups
    if (text !== undefined) tokens.push({ kind: 'text', text: unescape(text, "'") })
    else if (here !== undefined) tokens.push({ kind: 'text', text: here })
    else if (backtick !== undefined) tokens.push({ kind: 'name', text: unescape(backtick, '`') })
    else if (double !== undefined) tokens.push({ kind: 'name', text: unescape(double, '"') })
    else if (number !== undefined) tokens.push({ kind: 'number', text: number })
    else if (word !== undefined) tokens.push({ kind: 'word', text: word })
    else if (symbol !== undefined) tokens.push({ kind: 'symbol', text: symbol })
  }
  return tokens
}

function unescape (text: string, quote: string): string {
  return text.replaceAll(quote + quote, quote)
    .replaceAll(/\\(x([0-9a-fA-F]{2})|[\s\S])/g, (_, char: string, hex: string | undefined) =>
      hex === undefined ? ESCAPES[char] ?? char : String.fromCharCode(Number.parseInt(hex, 16)))
}
