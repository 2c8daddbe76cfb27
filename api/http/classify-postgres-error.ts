import { HttpError } from '../../platform/errors.ts'

/** What the driver raises when no server answers, and what a starting or ending server says (class 57 P). */
const UNAVAILABLE = new Set([
  'ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOENT',
  'CONNECTION_CLOSED', 'CONNECTION_ENDED',
  '57P01', '57P02', '57P03', '53300', '08000', '08001', '08003', '08004', '08006'
])

/**
 * The one table of what an error of Postgres means to the client of the API, by its code; undefined for the unknown.
 *
 * | code | answer |
 * |---|---|
 * | connection errors, 57P0x, 53300 | 503: the same request may succeed later |
 * | 22xxx (data exception) | 400: a value that no column can hold slipped through the schemas |
 * | 40001, 40P01 (serialization, deadlock) | 503 |
 *
 * Unique and other constraint violations are handled where they are expected, because only there the field is known.
 */
export function classifyPostgresError (error: unknown): HttpError | undefined {
  const code = readCode(error)
  if (code === undefined) return undefined
  if (UNAVAILABLE.has(code) || code === '40001' || code === '40P01') {
    return new HttpError(503, 'server_error', 'database_unavailable',
      'The metadata database is not available at the moment; try again later.', { cause: error, action: 'retry' })
  }
  if (/^22[0-9A-Z]{3}$/.test(code)) {
    return new HttpError(400, 'validation_error', 'invalid_input',
      'A value of the request cannot be stored.', { cause: error })
  }
}

/** True for the violation of the named unique constraint or index. */
export function isUniqueViolation (error: unknown, constraint?: string): boolean {
  if (readCode(error) !== '23505') return false
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint
}

function readCode (error: unknown): string | undefined {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}
