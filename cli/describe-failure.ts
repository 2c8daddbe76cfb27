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

/** The services that commands use, each with the setting that says where it is. */
const SERVICE_SETTINGS = { postgres: 'DATABASE_URL', clickhouse: 'CLICKHOUSE_URL', nats: 'NATS_URL' } as const
export type ServiceName = keyof typeof SERVICE_SETTINGS

/** A service that a command uses hangs. */
export class ServiceSilentError extends MillraceError {
  constructor (service: ServiceName, timeoutMs: number) {
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

/**
 * The exit code of a failure, and what went wrong, in one line for the person at the terminal.
 *
 * @param unavailable  Services of the command that do not answer: errors of sockets and time-outs do not name them.
 */
export function describeFailure (
  error: unknown, unavailable: readonly ServiceName[] = []
): { exitCode: number, message: string } {
  if (error instanceof ServiceSilentError || (error instanceof MillraceError && isUnavailable(error))) {
    return { exitCode: EXIT.noAnswer, message: error.message }
  }
  if (error instanceof MillraceError || error instanceof InvalidArgumentError) return failed(error.message)
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
  const known = POSTGRES_CODES[code]
  if (known !== undefined) return failed(known)
  if (isUnavailable(error)) {
    const [who, verb] = unavailable.length === 0
      ? ['a service', 'does']
      : [unavailable.join(' and '), unavailable.length === 1 ? 'does' : 'do']
    const settings = unavailable.length === 0
      ? Object.values(SERVICE_SETTINGS)
      : unavailable.map((name) => SERVICE_SETTINGS[name])
    return {
      exitCode: EXIT.noAnswer,
      message: `${who} ${verb} not answer; look at npx millrace status, start Millrace (npm start), or set ${settings.join(' or ')}`
    }
  }
  return failed(error instanceof Error ? error.message : String(error))
}

function failed (message: string): { exitCode: number, message: string } {
  return { exitCode: EXIT.failed, message }
}
