import { isBug } from '../../platform/errors.ts'
import { lockPersons } from '../../platform/persons/lock-persons.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { classifyPostgresError } from '../../platform/postgres/postgres-errors.ts'
import type { PersonsUpdate } from '../../schema/persons-update.ts'
import { foldUpdates } from './fold-updates.ts'
import { loadAll } from './load-persons.ts'
import { type PersonsOutcome, type RefusedUpdate, refuseUpdate } from './persons-outcome.ts'
import { writePersons } from './write-persons.ts'

/** What became of some updates, and how much was read for them. */
interface AppliedUpdates extends PersonsOutcome {
  /** Characters of properties read from Postgres. */
  propertiesLength: number
}

/**
 * What to do when applying a batch failed.
 *
 * - `retry`: Postgres is unavailable, or an operator has to repair it. Try the same batch again later; updates wait in
 *   the stream.
 * - `isolate`: some update of the batch can never be applied. Find it, dead-letter it, apply the rest.
 */
export type PersonsFailure = 'retry' | 'isolate'

/**
 * Applies updates in the given transaction: loads the persons and groups they name, changes them in memory in order,
 * and writes the result.
 *
 * Takes the persons lock of their projects, which the transaction keeps to its end.
 *
 * @param maxGroupTypes  Maximum group types of a project; further ones are ignored with a warning.
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
 * Applies updates of which some can never be applied. Tries them in a savepoint; when that fails, tries each half, in
 * order, down to the single updates that fail alone. Those are refused, all others are applied.
 *
 * @throws when Postgres is unavailable.
 */
export async function isolateUpdates (
  transaction: TransactionSql, updates: readonly PersonsUpdate[], maxGroupTypes: number
): Promise<AppliedUpdates> {
  try {
    return await transaction.savepoint(async (savepoint) => await applyUpdates(savepoint, updates, maxGroupTypes))
  } catch (error) {
    if (classifyFailure(error) === 'retry') throw error
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

/** Postgres puts values only into the error's `detail`, which is dropped here: its `message` names the rule alone. */
function refuse (update: PersonsUpdate, error: unknown): RefusedUpdate {
  const { code, message } = error as { code?: string, message?: string }
  const refused = refuseUpdate(update, 'not_applicable', message ?? String(error))
  return code === undefined ? refused : { ...refused, code }
}

/** An error from neither Postgres nor the connection is a bug that some update provokes. */
export function classifyFailure (error: unknown): PersonsFailure {
  return isBug(error) || classifyPostgresError(error).action === 'refuse' ? 'isolate' : 'retry'
}
