import { QueryError } from '../errors.ts'
import { scanTokens } from '../sql/lex-sql.ts'

/** Where an INSERT that carries its rows inline is cut into statement and data. */
export interface InsertCut {
  /** The end of `INSERT INTO t [(columns)]`. */
  headEnd: number
  /** The SETTINGS clause between head and format, or nothing. */
  settings: string
  format: string
  /** Where the rows begin. */
  dataStart: number
}

/**
 * Finds the rows of `INSERT INTO t [(columns)] [SETTINGS ...] FORMAT x <rows>` or `... VALUES <rows>`.
 *
 * Only the head is looked at: what follows may be binary and large. Give the text one character for each byte
 * (latin1), so that the positions are positions in the bytes.
 *
 * @returns undefined when the text is another statement, an INSERT ... SELECT, or not yet complete.
 * @throws {QueryError} 344 for FROM INFILE.
 */
export function findInsertData (text: string): InsertCut | undefined {
  let depth = 0
  let position = 0
  let formatStart: number | undefined
  let settingsStart: number | undefined
  const cut = (end: number, format: string, dataStart: number): InsertCut => ({
    headEnd: settingsStart ?? end, settings: text.slice(settingsStart ?? end, end), format, dataStart
  })
  for (const token of scanTokens(text)) {
    if (token.kind === 'comment') continue
    if (position === 0 && token.text !== 'INSERT') return undefined
    position++
    if (token.text === '(') depth++
    if (token.text === ')') depth--
    if (formatStart !== undefined) {
      if (token.kind !== 'word') return undefined
      // A word that touches the end may go on in the next piece; the caller has the whole head in hand by then.
      return cut(formatStart, text.slice(token.start, token.end), skipToData(text, token.end))
    }
    // The third word is the table's name (or TABLE), whatever it looks like.
    if (depth > 0 || position <= 3 || token.kind !== 'word') continue
    if (token.text === 'VALUES') return cut(token.start, 'Values', token.end)
    if (token.text === 'FORMAT') formatStart = token.start
    if (token.text === 'SETTINGS') settingsStart = token.start
    if (token.text === 'SELECT' || token.text === 'WITH') return undefined
    if (token.text === 'INFILE') throw new QueryError(344, 'FROM INFILE is not allowed')
  }
  return undefined
}

/** Rows begin after the first line break behind the format's name, or after the blanks when there is none. */
function skipToData (text: string, from: number): number {
  let at = from
  while (at < text.length && ' \t\f'.includes(text[at]!)) at++
  if (text[at] === ';') at++
  if (text[at] === '\r') at++
  if (text[at] === '\n') at++
  return at
}
