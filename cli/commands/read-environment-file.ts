/**
 * Reads a file of settings as systemd reads an `EnvironmentFile=`: a service is started with what systemd understood.
 * Other readers of such files take ` # text` behind a value for a comment and `export NAME=value` for a setting;
 * systemd makes the one part of the value, and ignores the other.
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
    let value = ''
    let isAfterBlank = text[at - 1] !== '='
    for (let piece = take(QUOTED); piece !== ''; piece = take(QUOTED)) {
      value += readQuoted(piece.replace(/[ \t]+$/, ''))
      isAfterBlank = true
    }
    const rest = take(UNQUOTED)
    if ((isAfterBlank && rest.startsWith('#')) || /[ \t]#/.test(rest)) {
      report('systemd takes # and what follows for part of the value: write a comment on a line of its own, or put the value into quotes')
    }
    return value + readUnquoted(rest)
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

function readQuoted (piece: string): string {
  const quote = piece[0]!
  const isClosed = piece.length > 1 && piece.endsWith(quote)
  const inner = piece.slice(1, isClosed ? -1 : undefined)
  return quote === "'" ? inner : inner.replaceAll(/\\([^])/g, (both, next: string) => next === '\n' ? '' : /["\\`$]/.test(next) ? next : both)
}

/** Blanks at the end do not count, unless they are behind a backslash. */
function readUnquoted (piece: string): string {
  const characters = piece.match(/\\[^]?|[^]/g) ?? []
  const last = characters.findLastIndex((each) => !/^[ \t]$/.test(each))
  return characters.slice(0, last + 1).map((each) => each.startsWith('\\') ? each.slice(1).replace(/[\r\n]/, '') : each).join('')
}
