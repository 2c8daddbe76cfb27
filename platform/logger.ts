import { pino, type Logger } from 'pino'

export type { Logger } from 'pino'

/**
 * Creates the logger of one process: JSON lines on standard output, one fact a line, errors under `err`.
 *
 * Keys and payloads are redacted here as a last resort; call sites do not log them in the first place.
 *
 * @param options.component  Name of the tier; part of every line.
 * @param options.level      Lowest level that is written.
 */
export function createLogger (options: { component: string, level: string }): Logger {
  return pino({
    level: options.level,
    base: { component: options.component, pid: process.pid },
    redact: {
      paths: ['apiKey', 'api_key', 'token', 'password', 'authorization', 'req.headers.authorization', '*.password'],
      censor: '[redacted]'
    }
  })
}
