/**
 * Reads a file of settings as systemd reads an `EnvironmentFile=`: a service is started with what systemd understood.
 * Other readers of such files take ` # text` behind a value for a comment and `export NAME=value` for a setting;
 * systemd makes the one part of the value, and ignores the other. What is read otherwise than it stands there is a
 * problem: a value that goes on in the next line, a backslash that goes away, text behind a quote.
 */

export interface EnvironmentFile {
  values: Record<string, string>
  /** What systemd takes for something else than its writer meant, or ignores, each with its line. */
  problems: string[]
}

const BLANKS = /[ \t\r\n]*/y
const COMMENT = /[#;][^\r\n]*/y
const NAME = /[^=\r\n]+/y
const EQUALS = /=[ \t]*/y
/** A value begins with any number of these. The end of the file closes a quote, too. */
const QUOTED = /('[^']*(?:'|$)|"(?:\\[^]|[^"\\])*(?:"|$))[ \t]*/y
/** From here on a quote is a character like another; a backslash before the end of a line continues it. */
const UNQUOTED = /(?:\\[^]|[^\\\r\n])*\\?/y

/** As `parse_env_file_internal` of systemd 252, with what its later versions read otherwise among the problems. */
export function readEnvironmentFile (text: string): EnvironmentFile {
  const values: Record<string, string> = {}
  const problems: string[] = []
  let at = 0

  function take (pattern: RegExp): string {
    pattern.lastIndex = at
    const [found = ''] = pattern.exec(text) ?? []
    at += found.length
    return found
  }

  function takeValue (report: (why: string) => void): string {
    const quoted: string[] = []
    const isAfterBlank = text[at - 1] !== '='
    for (let piece = take(QUOTED); piece !== ''; piece = take(QUOTED)) quoted.push(piece.replace(/[ \t]+$/, ''))
    const rest = take(UNQUOTED)
    findProblems(quoted, rest, isAfterBlank).forEach(report)
    return quoted.map(readQuoted).join('') + readUnquoted(rest)
  }

  for (take(BLANKS); at < text.length; take(BLANKS)) {
    const line = text.slice(0, at).split('\n').length
    const report = (why: string): void => { problems.push(`line ${line}: ${why}`) }
    const comment = take(COMMENT)
    if (comment !== '') {
      if (/(?<!\\)(\\\\)*\\$/.test(comment)) report('the comment ends with a backslash, so systemd before 254 ignores the next line, too')
      continue
    }
    const name = take(NAME).trimEnd()
    const isSetting = take(EQUALS) !== ''
    const value = isSetting ? takeValue(report) : ''
    if (isSetting && /^[A-Za-z_]\w*$/.test(name)) values[name] = value
    else report('systemd ignores it: write NAME=value, without "export", or # before a comment')
  }
  return { values, problems }
}

/** What of a value is read otherwise than it stands there. `isAfterBlank`: something is between `=` and the value. */
function findProblems (quoted: readonly string[], rest: string, isAfterBlank: boolean): string[] {
  const pieces = [...quoted, rest]
  if (quoted.some((piece) => piece.includes('\n') || !isClosed(piece))) {
    return ['the quote is not closed on the line, so systemd takes the lines after it for part of the value: close it']
  }
  if (pieces.some((piece) => /\\\r?(\n|$)/.test(piece))) {
    return ['systemd joins the next line to one that ends with a backslash: write the whole value on one line, or put it into single quotes']
  }
  const problems: string[] = []
  if (((quoted.length > 0 || isAfterBlank) && rest.startsWith('#')) || /[ \t]#/.test(rest)) {
    problems.push('systemd takes # and what follows for part of the value: write a comment on a line of its own, or put the value into quotes')
  } else if (quoted.length > 1 || (quoted.length === 1 && rest !== '')) {
    problems.push('systemd takes what follows the closing quote for part of the value, without the blanks: put the whole value into one pair of quotes')
  }
  // An escaped quote is meant: a quote alone would close the value.
  const isChanged = rest.includes('\\') || quoted.some((piece) => piece.startsWith('"') && /^(?:\\[^\\`$]|[^\\])*\\[\\`$]/.test(piece))
  if (isChanged) problems.push('systemd takes away a backslash: put the value into single quotes')
  return problems
}

function isClosed (piece: string): boolean {
  return piece.length > 1 && piece.endsWith(piece[0]!) && !(piece.startsWith('"') && /^"(?:\\[^]|[^"\\])*$/.test(piece))
}

function readQuoted (piece: string): string {
  const quote = piece[0]!
  const inner = piece.slice(1, isClosed(piece) ? -1 : undefined)
  return quote === "'" ? inner : inner.replaceAll(/\\([^])/g, (both, next: string) => next === '\n' ? '' : /["\\`$]/.test(next) ? next : both)
}

/** Blanks at the end do not count, unless they are behind a backslash. */
function readUnquoted (piece: string): string {
  const characters = piece.match(/\\[^]?|[^]/g) ?? []
  const last = characters.findLastIndex((each) => !/^[ \t]$/.test(each))
  return characters.slice(0, last + 1).map((each) => each.startsWith('\\') ? each.slice(1).replace(/[\r\n]/, '') : each).join('')
}
