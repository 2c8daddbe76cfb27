import { InvalidArgumentError } from 'commander'
import { MillraceError } from '../platform/errors.ts'

const POSTGRES_AWAY = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'CONNECT_TIMEOUT', 'CONNECTION_CLOSED', '57P03'])

/** Codes of Postgres that an operator can do something about. */
const POSTGRES_CODES: Record<string, string> = {
  '28P01': 'the database refused the password',
  '3D000': 'the database does not exist',
  '42P01': 'the database has not been migrated; run npm run migrate',
  23514: 'a value is longer than allowed'
}

/** What went wrong, in one line for the person at the terminal. */
export function describeFailure (error: unknown): string {
  if (error instanceof MillraceError || error instanceof InvalidArgumentError) return error.message
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
  const known = POSTGRES_CODES[code]
  if (known !== undefined) return known
  if (POSTGRES_AWAY.has(code)) {
    return 'the service does not answer; start Millrace (npm start), or set DATABASE_URL, CLICKHOUSE_URL or NATS_URL'
  }
  return error instanceof Error ? error.message : String(error)
}
