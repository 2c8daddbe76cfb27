import { type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { type PersonsUpdate } from '../../../schema/persons-update.ts'
import { applyUpdates, type AppliedUpdates } from './apply-updates.ts'
import { classifyPostgresError } from './classify-postgres-error.ts'
import { refuseUpdate, type RefusedUpdate } from '../persons-outcome.ts'

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
