/** The server's log: a line of JSON for each fact, on standard output, with the fields and levels that pino writes. */
import { writeSync } from 'node:fs'

/** From the lowest to the highest; with `silent` nothing is written. */
const LEVELS = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60, silent: Infinity } as const

export type LogLevel = keyof typeof LEVELS
export const LOG_LEVELS = Object.keys(LEVELS)

export function isLogLevel (text: string): text is LogLevel {
  return text in LEVELS
}

/** Facts of a line beside its sentence; an error under `err`. */
type Fields = Readonly<Record<string, unknown>>

export type Logger = ReturnType<typeof createLogger>

/** Over which repetitions of a warning or an error are counted, in milliseconds. */
const WINDOW_MS = 60_000

/** Fields that make a line another fact; ids and times of requests do not. */
const SUBJECTS = ['definition', 'file', 'folder', 'part', 'table', 'user'] as const

/**
 * Creates the logger of the process. A warning or an error that comes again within a minute is not written, but
 * counted: what a full disk repeats twice a second is two lines a minute.
 *
 * @param write  Takes a line without its end. Default: standard output.
 */
export function createLogger (level: LogLevel, write: (line: string) => void = writeLine, windowMs = WINDOW_MS) {
  const repeated = new Map<string, number>()

  function log (name: LogLevel, fields: Fields, text: string): void {
    if (LEVELS[name] < LEVELS[level]) return
    const { err, ...others } = fields
    const error = err === undefined ? {} : { err: describeError(err) }
    write(JSON.stringify({ level: LEVELS[name], time: Date.now(), component: 'clickhouse', pid: process.pid, ...others, ...error, msg: text }))
  }

  function logOnce (name: 'warn' | 'error', fields: Fields, text: string): void {
    const key = JSON.stringify([name, text, SUBJECTS.map((subject) => fields[subject] ?? null)])
    const count = repeated.get(key)
    if (count !== undefined) {
      repeated.set(key, count + 1)
      return
    }
    repeated.set(key, 0)
    log(name, fields, text)
    setTimeout(() => {
      const times = repeated.get(key) ?? 0
      repeated.delete(key)
      if (times > 0) log(name, { repeated: times }, `${text} (repeated ${times} ${times === 1 ? 'time' : 'times'})`)
    }, windowMs).unref()
  }

  return {
    info: (fields: Fields, text: string) => log('info', fields, text),
    warn: (fields: Fields, text: string) => logOnce('warn', fields, text),
    error: (fields: Fields, text: string) => logOnce('error', fields, text),
    fatal: (fields: Fields, text: string) => log('fatal', fields, text)
  }
}

function describeError (error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) }
  const { name, message, stack } = error
  return { type: name, message, stack, ...'code' in error ? { code: error.code } : {} }
}

/** Not `process.stdout.fd`: making that stream would have writes to a pipe fail when it is full. */
const STDOUT = 1

let isCut = false

/** At once, because the process may end in the next moment. Logging never ends it: what finds no room is dropped. */
function writeLine (line: string): void {
  const bytes = Buffer.from(`${isCut ? '\n' : ''}${line}\n`)
  try {
    isCut = writeSync(STDOUT, bytes) < bytes.length
  } catch {
    // A full disk, or a reader that has gone.
  }
}
