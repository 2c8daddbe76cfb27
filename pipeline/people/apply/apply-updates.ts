import { type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { type PeopleUpdate } from '../../../schema/people-update.ts'
import { lockPeople } from '../../../platform/persons/lock-people.ts'
import { foldUpdates } from '../fold/fold-updates.ts'
import { loadPeople } from '../load/load-people.ts'
import { refuseUpdate, type PeopleOutcome } from '../people-outcome.ts'
import { writePeople } from '../write/write-people.ts'

/** What became of updates, and what it took. */
export interface AppliedUpdates extends PeopleOutcome {
  /** Characters of properties read from Postgres. */
  propertiesLength: number
}

/**
 * Applies updates in the given transaction: load whom they name, change them in memory in order, write the result.
 *
 * Holds the people lock of their projects from here on.
 *
 * @param maxGroupTypes  Of a project; further ones are ignored with a warning.
 */
export async function applyUpdates (
  transaction: TransactionSql, updates: readonly PeopleUpdate[], maxGroupTypes: number
): Promise<AppliedUpdates> {
  if (updates.length === 0) return { merges: [], refused: [], warnings: [], propertiesLength: 0 }
  const versions = await lockPeople(transaction, [...new Set(updates.map((update) => update.projectId))])
  const known = updates.filter((update) => versions.has(update.projectId))
  const unknown = updates.filter((update) => !versions.has(update.projectId))

  const { state, propertiesLength } = await loadPeople(transaction, known, maxGroupTypes)
  const outcome = foldUpdates(state, known)
  await writePeople(transaction, state, versions)
  const refused = unknown.map((update) => refuseUpdate(update, 'unknown_project', `there is no project ${update.projectId}`))
  return { ...outcome, refused: [...refused, ...outcome.refused], propertiesLength }
}
