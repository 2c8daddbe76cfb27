/** Log lines for people: what `createLogger` writes to a terminal, and what `millrace logs` shows there. */

const LEVELS: Readonly<Record<number, string>> = { 10: 'TRACE', 20: 'DEBUG', 30: 'INFO', 40: 'WARN', 50: 'ERROR', 60: 'FATAL' }

/** Of SGR: dim, yellow, red. */
const COLORS: Readonly<Record<string, number>> = { TRACE: 2, DEBUG: 2, WARN: 33, ERROR: 31, FATAL: 31 }

interface LogLine {
  level?: number
  time?: number
  component?: string
  msg?: string
  err?: { stack?: string, message?: string, code?: string }
  [field: string]: unknown
}

/**
 * Turns a JSON line into `14:03:07.123 WARN  pipeline  an insert failed  partition=live.0`, with the stack of an error
 * below it. A line that is not JSON of ours stays as it is, behind the name of what wrote it.
 *
 * @param line             Without its line break.
 * @param options.source   Names the process of a line that does not name itself, as those of Postgres.
 * @param options.isColored  Warnings and errors are yellow and red.
 */
export function formatLogLine (line: string, options: { source?: string, isColored?: boolean } = {}): string {
  const parsed = parseLine(line)
  try {
    if (parsed !== undefined) return formatFields(parsed, options)
  } catch {
    // Safe to ignore: somebody else's JSON, whose fields are of other types, is shown as it is.
  }
  return clean(options.source === undefined ? line : `${options.source.padEnd(10)} ${line}`)
}

function formatFields (parsed: LogLine, options: { source?: string, isColored?: boolean }): string {
  const { level = 30, time = 0, component = options.source ?? '', msg = '', err, pid: _, ...fields } = parsed
  const name = LEVELS[level] ?? String(level)
  const color = options.isColored === true ? COLORS[name] : undefined
  const shown = color === undefined ? name.padEnd(5) : `\u001b[${color}m${name.padEnd(5)}\u001b[0m`
  const clock = new Date(time).toISOString().slice(11, 23)
  const rest = Object.entries(fields).map(([key, value]) => `  ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const error = err === undefined ? '' : `\n  ${clean(err.stack ?? [err.message, err.code].filter(Boolean).join(' '), '\n  ')}`
  return `${clock} ${shown} ${component.padEnd(10)} ${clean(`${msg}${rest.join('')}`)}${error}`
}

/** When the line was written, in epoch milliseconds; undefined when it is not JSON of ours. */
export function timeOf (line: string): number | undefined {
  return parseLine(line)?.time
}

function parseLine (line: string): LogLine | undefined {
  if (!line.startsWith('{')) return undefined
  try {
    const parsed = JSON.parse(line) as LogLine
    return typeof parsed.time === 'number' ? parsed : undefined
  } catch {
    return undefined
  }
}

/** A message may hold what a client sent; control characters must not reach the terminal. */
function clean (text: string, lineBreak = ' '): string {
  return text.split('\n').map((line) => line.replaceAll(/\p{Cc}/gu, '?')).join(lineBreak)
}
