import pg from 'pg'

/**
 * What to do when applying a batch failed.
 *
 * - `retry`: Postgres could not do it now, or someone has to repair it: wait and try the same batch again. Nothing is
 *   lost meanwhile, updates wait in the stream.
 * - `isolate`: something in the batch can never be applied: find it, dead-letter it, apply the rest.
 */
export type PostgresFailure = 'retry' | 'isolate'

/**
 * Classes of SQLSTATE (its first two characters) that speak about the data. Everything else speaks about the server,
 * the connection, the schema or rights, which must never cost a healthy update.
 */
const DATA_CLASSES = new Set([
  '21', // cardinality violation
  '22', // data exception: a text that is no jsonb, a number out of range, a time that is none
  '23', // integrity constraint violation
  '44', // with check option violation
  '54' // program limit exceeded: nested too deep, too long for an index
])

/** Total. What is neither Postgres nor the connection is a bug that something in the batch provokes. */
export function classifyPostgresError (error: unknown): PostgresFailure {
  if (error instanceof pg.DatabaseError) {
    return DATA_CLASSES.has(error.code?.slice(0, 2) ?? '') ? 'isolate' : 'retry'
  }
  // Those of `connectPostgres` (CONNECTION_CLOSED, ...) and those of the socket (ECONNREFUSED, ...).
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string' && /^(CONNECT|E[A-Z]+$)/.test(code)) return 'retry'
  const isMistake = error instanceof RangeError || error instanceof TypeError || error instanceof SyntaxError
  return isMistake ? 'isolate' : 'retry'
}
