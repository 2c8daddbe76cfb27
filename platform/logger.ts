import { destination, type LogFn, type Logger, pino, stdSerializers } from 'pino'
import { HttpError, MillraceError } from '../engines/errors.ts'
import { formatLogLine } from '../engines/log-lines.ts'
import { isUnavailable } from './store-errors.ts'

export type { Logger } from 'pino'

/** Maximum characters of lines that wait for a full disk; further lines are dropped. */
const MAX_WAITING_LENGTH = 1_048_576

/** Keys and payloads, at the top of a line and one level below, where errors of clients carry them. */
const SECRETS = [
  'apiKey', 'api_key', 'token', 'password', 'authorization', 'body', 'payload', 'properties', 'query_params', 'parameters'
]

/**
 * Creates the logger of one process: JSON lines on standard output, readable ones on a terminal; one fact a line,
 * errors under `err`. A warning or an error that comes again and again is one line, and then counts; errors of services
 * that are unavailable have no stack.
 *
 * Keys and payloads are redacted here as a last resort; call sites do not log them in the first place.
 * Logging never ends the process: while the output has no room, lines wait, then are dropped.
 *
 * @param options.component  Name of the tier; part of every line.
 * @param options.level      Lowest level that is written.
 */
export function createLogger (options: { component: string, level: string }): Logger {
  const lines = destination({ fd: process.stdout.fd, sync: true, maxLength: MAX_WAITING_LENGTH })
  // Ignored: the next line is written again.
  lines.on('error', () => {})
  const output = process.stdout.isTTY
    ? { write: (line: string) => { lines.write(`${formatLogLine(line.trimEnd(), { isColored: true })}\n`) } }
    : lines
  return pino({
    level: options.level,
    hooks: { logMethod: createRepeatedLinesHook() },
    serializers: { err: describeError },
    base: { component: options.component, pid: process.pid },
    redact: {
      paths: [...SECRETS, ...SECRETS.map((name) => `*.${name}`), 'req.headers.authorization', 'req.headers.cookie'],
      censor: '[redacted]'
    }
  }, output)
}

/** Errors of an unavailable service have no stack: it says nothing, and would be most of the log of an outage. */
function describeError (error: Error): unknown {
  if (!isExpected(error)) return stdSerializers.err(error)
  const { name, message, code, cause } = error as Error & { code?: unknown }
  return {
    type: name,
    message,
    ...(code === undefined ? {} : { code }),
    ...(cause instanceof Error ? { cause: cause.message } : {})
  }
}

function isExpected (error: unknown): boolean {
  if (error instanceof HttpError) return error.status === 503
  return isUnavailable(error) || (error instanceof MillraceError && error.action === 'retry')
}

/** First and longest time over which repetitions of a line are counted, in milliseconds. */
const FIRST_WINDOW_MS = 60_000
const LONGEST_WINDOW_MS = 3_600_000

/** Different lines that are remembered; beyond, the oldest is forgotten. Bounds the memory, whatever is logged. */
const MAX_LINES = 1000

/** From here on lines are counted: warnings and errors, as pino numbers levels. */
const FROM_LEVEL = 40
const FATAL = 60

/** Fields that make a line another fact: what it is about. Attempts, times, ids of requests do not. */
const SUBJECT_FIELDS = [
  'partition', 'stream', 'project', 'projectId', 'flag', 'table', 'folder', 'file', 'setting', 'step', 'status', 'reason', 'code'
] as const

interface Line {
  /** Writes what stands for the repetitions. */
  write: (fields: Record<string, unknown>, text: string) => void
  fields: Record<string, unknown>
  text: string
  /** Repetitions that were not written. */
  repeated: number
  /** Epoch milliseconds of the first and the last of them. */
  since: number
  until: number
  windowMs: number
  timer: NodeJS.Timeout
}

type LogMethod = (this: Logger, args: Parameters<LogFn>, method: LogFn, level: number) => void

/**
 * Creates the hook of a logger that writes a warning or an error once, and of its repetitions only how many came and
 * since when: after a minute, then after two, four, up to an hour. An outage that repeats its errors several times a
 * second so costs some lines an hour instead of megabytes.
 *
 * A repetition has the same level, message and code of its error, and is about the same subject (`SUBJECT_FIELDS`). A
 * line that did not come for a whole window is new when it comes again.
 */
export function createRepeatedLinesHook (now: () => number = Date.now, firstWindowMs = FIRST_WINDOW_MS): LogMethod {
  const lines = new Map<string, Line>()
  let isFlushedAtExit = false

  function tell (line: Line): void {
    if (line.repeated === 0) return
    const { fields, text, repeated, since, until } = line
    line.repeated = 0
    line.write({ ...fields, repeated, since: new Date(since).toISOString(), until: new Date(until).toISOString() },
      `${text} (repeated ${repeated} ${repeated === 1 ? 'time' : 'times'})`)
  }

  function endWindow (key: string, line: Line): void {
    if (line.repeated === 0) {
      lines.delete(key)
      return
    }
    tell(line)
    line.windowMs = Math.min(line.windowMs * 2, LONGEST_WINDOW_MS)
    line.timer = setTimeout(endWindow, line.windowMs, key, line).unref()
  }

  function remember (key: string, line: Omit<Line, 'timer'>): void {
    const [oldest] = lines
    if (lines.size >= MAX_LINES && oldest !== undefined) {
      clearTimeout(oldest[1].timer)
      tell(oldest[1])
      lines.delete(oldest[0])
    }
    const timer = setTimeout(() => endWindow(key, remembered), line.windowMs).unref()
    const remembered: Line = { ...line, timer }
    lines.set(key, remembered)
  }

  return function logMethod (args, method, level) {
    if (level < FROM_LEVEL || level >= FATAL) {
      method.apply(this, args)
      return
    }
    const { key, fields, text } = describeLine(args, level)
    const known = lines.get(key)
    if (known === undefined) {
      const write: Line['write'] = (summary, message) => { method.apply(this, [summary, message]) }
      remember(key, { write, fields, text, repeated: 0, since: 0, until: 0, windowMs: firstWindowMs })
      method.apply(this, args)
      return
    }
    if (known.repeated === 0) known.since = now()
    known.until = now()
    known.repeated++
    if (!isFlushedAtExit) {
      isFlushedAtExit = true
      process.once('exit', () => { for (const line of lines.values()) tell(line) })
    }
  }
}

function describeLine (
  args: readonly unknown[], level: number
): { key: string, fields: Record<string, unknown>, text: string } {
  const [first, second] = args
  const given = (typeof first === 'object' && first !== null ? first : {}) as Record<string, unknown>
  const error = (first instanceof Error ? first : given.err ?? {}) as Record<string, unknown>
  const errorCode = error.code ?? error.name
  const text = String(typeof first === 'string' ? first : second ?? error.message ?? '')
  const fields: Record<string, unknown> = errorCode === undefined ? {} : { errorCode }
  for (const name of SUBJECT_FIELDS) if (given[name] !== undefined) fields[name] = given[name]
  return { key: JSON.stringify([level, text, fields]), fields, text }
}
