import { type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { type PersonsUpdate } from '../../../schema/persons-update.ts'
import { lockPersons } from '../../../platform/persons/lock-persons.ts'
import { foldUpdates } from '../fold/fold-updates.ts'
import { loadAll } from '../load/load-persons.ts'
import { refuseUpdate, type PersonsOutcome } from '../persons-outcome.ts'
import { writePersons } from '../write/write-persons.ts'

/** What became of updates, and what it took. */
export interface AppliedUpdates extends PersonsOutcome {
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
