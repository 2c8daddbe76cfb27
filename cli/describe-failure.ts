import { InvalidArgumentError } from 'commander'
import { isUnavailable, MillraceError } from '../platform/errors.ts'

/** Exit codes of `npx millrace`; listed in docs/operations.md. */
export const EXIT = {
  done: 0,
  /** Refused, or failed for a reason that is told. */
  failed: 1,
  /** Nothing was tried: the command line is wrong. */
  wrongCommandLine: 2,
  /** A service refuses connections or hangs: what was asked is unknown, what was begun may be done or not. */
  noAnswer: 3
} as const

/** A service that a command uses hangs. */
export class ServiceSilentError extends MillraceError {
  constructor (service: string, timeoutMs: number) {
    super('MILLRACE_SERVICE_SILENT', `${service} has not answered for ${timeoutMs / 1000} s; what this command asked for ` +
      'is not known, and what it began may be done or not')
    this.name = 'ServiceSilentError'
  }
}

/** Codes of Postgres that an operator can do something about. */
const POSTGRES_CODES: Record<string, string> = {
  '28P01': 'the database refused the password',
  '3D000': 'the database does not exist',
  '42P01': 'the database has not been migrated; run npm run migrate',
  23514: 'a value is longer than allowed'
}

/** The exit code of a failure, and what went wrong, in one line for the person at the terminal. */
export function describeFailure (error: unknown): { exitCode: number, message: string } {
  if (error instanceof ServiceSilentError || (error instanceof MillraceError && isUnavailable(error))) {
    return { exitCode: EXIT.noAnswer, message: error.message }
  }
  if (error instanceof MillraceError || error instanceof InvalidArgumentError) return failed(error.message)
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
  const known = POSTGRES_CODES[code]
  if (known !== undefined) return failed(known)
  if (isUnavailable(error)) {
    return {
      exitCode: EXIT.noAnswer,
      message: 'the service does not answer; start Millrace (npm start), or set DATABASE_URL, CLICKHOUSE_URL or NATS_URL'
    }
  }
  return failed(error instanceof Error ? error.message : String(error))
}

function failed (message: string): { exitCode: number, message: string } {
  return { exitCode: EXIT.failed, message }
}
