import pg from 'pg'
import { type TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type PersonsUpdate } from '../../schema/persons-update.ts'
import { lockPersons } from '../../platform/persons/lock-persons.ts'
import { foldUpdates } from './fold-updates.ts'
import { loadAll } from './load-persons.ts'
import { type PersonsOutcome, type RefusedUpdate, refuseUpdate } from './persons-outcome.ts'
import { writePersons } from './write-persons.ts'

/** What became of updates, and what it took. */
interface AppliedUpdates extends PersonsOutcome {
  /** Characters of properties read from Postgres. */
  propertiesLength: number
}

/**
 * Applies updates in the given transaction: load whom they name, change them in memory in order, write the result.
 *
 * Holds the persons lock of their projects from here on.
 *
 * @param maxGroupTypes  Of a project; further ones are ignored with a warning.
 */
export async function applyUpdates (
  transaction: TransactionSql, updates: readonly PersonsUpdate[], maxGroupTypes: number
): Promise<AppliedUpdates> {
  if (updates.length === 0) return { merges: [], refused: [], warnings: [], propertiesLength: 0 }
  const versions = await lockPersons(transaction, [...new Set(updates.map((update) => update.projectId))])
  const known = updates.filter((update) => versions.has(update.projectId))
  const unknown = updates.filter((update) => !versions.has(update.projectId))

  const { state, propertiesLength } = await loadAll(transaction, known, maxGroupTypes)
  const outcome = foldUpdates(state, known)
  await writePersons(transaction, state, versions)
  const refused = unknown.map((update) => refuseUpdate(update, 'unknown_project', `there is no project ${update.projectId}`))
  return { ...outcome, refused: [...refused, ...outcome.refused], propertiesLength }
}

/**
 * Applies updates of which some can never be applied: halves them, in order, each half from a savepoint, down to the
 * single updates that fail by themselves. Those are refused, all others are applied.
 *
 * @throws when Postgres cannot do it now.
 */
export async function isolateUpdates (
  transaction: TransactionSql, updates: readonly PersonsUpdate[], maxGroupTypes: number
): Promise<AppliedUpdates> {
  try {
    return await transaction.savepoint(async (savepoint) => await applyUpdates(savepoint, updates, maxGroupTypes))
  } catch (error) {
    if (classifyPostgresError(error) === 'retry') throw error
    const [only] = updates
    if (updates.length === 1 && only !== undefined) {
      return { merges: [], refused: [refuse(only, error)], warnings: [], propertiesLength: 0 }
    }
  }
  const middle = updates.length >>> 1
  const first = await isolateUpdates(transaction, updates.slice(0, middle), maxGroupTypes)
  const second = await isolateUpdates(transaction, updates.slice(middle), maxGroupTypes)
  return {
    merges: [...first.merges, ...second.merges],
    refused: [...first.refused, ...second.refused],
    warnings: [...first.warnings, ...second.warnings],
    propertiesLength: Math.max(first.propertiesLength, second.propertiesLength)
  }
}

/** The message of Postgres names the rule, not the values; those are in the error's detail, which is not told. */
function refuse (update: PersonsUpdate, error: unknown): RefusedUpdate {
  const { code, message } = error as { code?: string, message?: string }
  const refused = refuseUpdate(update, 'not_applicable', message ?? String(error))
  return code === undefined ? refused : { ...refused, code }
}

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
