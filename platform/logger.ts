import { destination, pino, stdSerializers, type Logger } from 'pino'
import { HttpError, isUnavailable, MillraceError } from './errors.ts'
import { createRepeatedLinesHook } from './repeated-lines.ts'

export type { Logger } from 'pino'

/** Lines that wait for room on a full disk, in characters; what is beyond is dropped. */
const MAX_WAITING_LENGTH = 1_048_576

/** Keys and payloads, at the top of a line and one level below, where errors of clients carry them. */
const SECRETS = [
  'apiKey', 'api_key', 'token', 'password', 'authorization', 'body', 'payload', 'properties', 'query_params', 'parameters'
]

/**
 * Creates the logger of one process: JSON lines on standard output, one fact a line, errors under `err`. A warning or
 * an error that comes again and again is one line, and then counts; errors of services that are unavailable have no
 * stack.
 *
 * Keys and payloads are redacted here as a last resort; call sites do not log them in the first place.
 * Logging never ends the process: while the output has no room, lines wait, then are dropped.
 *
 * @param options.component  Name of the tier; part of every line.
 * @param options.level      Lowest level that is written.
 */
export function createLogger (options: { component: string, level: string }): Logger {
  const output = destination({ fd: process.stdout.fd, sync: true, maxLength: MAX_WAITING_LENGTH })
  // It tries again with the next line.
  output.on('error', () => {})
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

/**
 * The stack of anyone who asked a service that is unavailable tells nothing, and would be most of the log of an outage.
 */
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
