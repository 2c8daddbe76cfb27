import { errorCode, type KnownStoreError, type StoreError } from '../../engines/errors.ts'

const NO_ANSWER: KnownStoreError = {
  name: 'no_answer', action: 'retry', why: 'the connection was refused, lost or timed out', isDown: true
}

/** Codes of sockets, and those that `connectPostgres` gives to errors of the driver: the same for every service. */
const NO_CONNECTION = new Set([
  'ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'ENOTFOUND',
  'EAI_AGAIN', 'ETIMEDOUT', 'EPIPE',
  'MILLRACE_POSTGRES_CONNECTION_LOST', 'MILLRACE_POSTGRES_POOL_CLOSED'
])

/**
 * The one table of Postgres' errors, by SQLSTATE or by its class (the first two characters); the SQLSTATE decides
 * first. Names are those of appendix A of the manual. Missing ones are `unknown`.
 */
export const POSTGRES_ERRORS: Readonly<Record<string, KnownStoreError>> = {
  // Postgres cannot do it now.
  '08': { name: 'connection_exception', action: 'retry', why: 'the connection broke', isDown: true },
  25006: { name: 'read_only_sql_transaction', action: 'retry', why: 'a standby, or in the middle of a failover' },
  40: { name: 'transaction_rollback', action: 'retry', why: 'a deadlock or a conflict with another transaction' },
  53: { name: 'insufficient_resources', action: 'retry', why: 'disk or memory' },
  53300: { name: 'too_many_connections', action: 'retry', why: 'more connections than max_connections', isDown: true },
  '55P03': { name: 'lock_not_available', action: 'retry', why: 'somebody else holds a lock' },
  57014: { name: 'query_canceled', action: 'retry', why: 'a time limit, or an operator' },
  '57P01': { name: 'admin_shutdown', action: 'retry', why: 'the server ends', isDown: true },
  '57P02': { name: 'crash_shutdown', action: 'retry', why: 'the server crashed', isDown: true },
  '57P03': { name: 'cannot_connect_now', action: 'retry', why: 'the server starts or ends', isDown: true },
  '57P05': { name: 'idle_session_timeout', action: 'retry', why: 'the connection was idle', isDown: true },
  58: { name: 'system_error', action: 'retry', why: 'the operating system or the disk' },

  // Until an operator acts, nothing of the kind succeeds.
  28: { name: 'invalid_authorization_specification', action: 'repair', why: 'the database refused the login' },
  '28P01': { name: 'invalid_password', action: 'repair', why: 'the database refused the password' },
  '3D000': { name: 'invalid_catalog_name', action: 'repair', why: 'the database does not exist' },
  42501: { name: 'insufficient_privilege', action: 'repair', why: 'the login lacks a right' },
  '42P01': { name: 'undefined_table', action: 'repair', why: 'the database has not been migrated; run npm run migrate' },
  42703: { name: 'undefined_column', action: 'repair', why: 'the database has not been migrated; run npm run migrate' },
  '57P04': { name: 'database_dropped', action: 'repair', why: 'the database was dropped' },
  XX001: { name: 'data_corrupted', action: 'repair', why: 'the data of Postgres is damaged' },
  XX002: { name: 'index_corrupted', action: 'repair', why: 'an index of Postgres is damaged' },

  // A value that no column can hold, or that breaks a rule of the table.
  21: { name: 'cardinality_violation', action: 'refuse', why: 'more than one row' },
  22: { name: 'data_exception', action: 'refuse', why: 'a string that is not valid JSON, a number out of range, an invalid time' },
  23: { name: 'integrity_constraint_violation', action: 'refuse', why: 'a rule of the table' },
  23505: { name: 'unique_violation', action: 'refuse', why: 'a row with this key exists' },
  23514: { name: 'check_violation', action: 'refuse', why: 'a value is longer than allowed' },
  44: { name: 'with_check_option_violation', action: 'refuse', why: 'a rule of a view' },
  54: { name: 'program_limit_exceeded', action: 'refuse', why: 'nested too deep, or too long for an index' }
}

/**
 * Tells what any error of a statement means, by its code: that of Postgres, of the socket, or of `connectPostgres`.
 * Errors without a code are `unknown`, bugs of this process among them.
 */
export function classifyPostgresError (error: unknown): StoreError & { code: string } {
  const code = errorCode(error)
  // A socket of Unix that is not there; of a file it says nothing about Postgres.
  const isNoSocket = code === 'ENOENT' && error instanceof Error && 'syscall' in error && error.syscall === 'connect'
  if (NO_CONNECTION.has(code) || isNoSocket) return { code, ...NO_ANSWER }
  const known = SQLSTATE.test(code) ? POSTGRES_ERRORS[code] ?? POSTGRES_ERRORS[code.slice(0, 2)] : undefined
  return { code, ...(known ?? { name: code, action: 'unknown', why: 'not in the table' }) }
}

const SQLSTATE = /^[0-9A-Z]{5}$/
