import { errorCode, isBug } from '../../engines/errors.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { classifyPostgresError } from '../../platform/postgres/postgres-errors.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { takeFitting } from './fit-updates.ts'
import { foldUpdates } from './fold-updates.ts'
import { leaveOut, readPast } from './leave-out-undone.ts'
import { findRows, loadRows } from './load-persons.ts'
import { type PersonsOutcome, type RefusedUpdate, refuseUpdate } from './persons-outcome.ts'
import { writePersons } from './write-persons.ts'

/** What became of some updates, and how much was read for them. */
interface AppliedUpdates extends PersonsOutcome {
  /** Bytes of properties read from Postgres. */
  propertiesBytes: number
}

/**
 * What to do when applying a batch failed.
 *
 * - `retry`: Postgres is unavailable, or an operator has to repair it. Try the same batch again later; updates wait in
 *   the stream.
 * - `isolate`: some update of the batch can never be applied. Find it, dead-letter it, apply the rest.
 */
export type PersonsFailure = 'retry' | 'isolate'

/** Updates that are looked at again, at least, when those before them did not fit into memory. */
const MIN_LOOK_AHEAD = 64

/**
 * Applies updates in the given transaction: loads the persons and groups they name, changes them in memory in order,
 * and writes the result; some updates at a time, where what they name is too large to be in memory together.
 *
 * Takes the persons lock of their projects, which the transaction keeps to its end.
 *
 * @param maxGroupTypes  Maximum group types of a project; further ones are ignored with a warning.
 */
export async function applyUpdates (
  transaction: TransactionSql, updates: readonly PersonsUpdate[], maxGroupTypes: number
): Promise<AppliedUpdates> {
  const all: AppliedUpdates = { merges: [], refused: [], warnings: [], propertiesBytes: 0 }
  let lookAhead = updates.length
  for (let at = 0; at < updates.length;) {
    const next = updates.slice(at, at + lookAhead)
    // Each time, as a version is of one state of a person.
    const withPast = new Set<number>()
    const versions = await lockPersons(transaction, [...new Set(next.map((update) => update.projectId))], withPast)
    const past = await readPast(transaction, withPast, next)
    const found = await findRows(transaction, next, maxGroupTypes)
    const { updates: fitting, large } = takeFitting(next, found)
    const known: PersonsUpdate[] = []
    for (const update of fitting) {
      if (versions.has(update.projectId)) known.push(...past === null ? [update] : leaveOut(update, past))
      else all.refused.push(refuseUpdate(update, 'unknown_project', `there is no project ${update.projectId}`))
    }
    const propertiesBytes = await loadRows(transaction, found, large)
    append(all, { ...foldUpdates(found.state, known), propertiesBytes })
    await writePersons(transaction, found.state, versions)
    at += fitting.length
    lookAhead = fitting.length < next.length ? Math.max(MIN_LOOK_AHEAD, fitting.length) : 2 * lookAhead
  }
  return all
}

function append (all: AppliedUpdates, { merges, refused, warnings, propertiesBytes }: AppliedUpdates): void {
  for (const merge of merges) all.merges.push(merge)
  for (const update of refused) all.refused.push(update)
  for (const warning of warnings) all.warnings.push(warning)
  all.propertiesBytes += propertiesBytes
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
      return { merges: [], refused: [refuse(only, error)], warnings: [], propertiesBytes: 0 }
    }
  }
  const middle = updates.length >>> 1
  const first = await isolateUpdates(transaction, updates.slice(0, middle), maxGroupTypes)
  const second = await isolateUpdates(transaction, updates.slice(middle), maxGroupTypes)
  append(first, second)
  return first
}

/** Postgres puts values only into the error's `detail`, which is dropped here: its `message` names the rule alone. */
function refuse (update: PersonsUpdate, error: unknown): RefusedUpdate {
  const code = errorCode(error)
  const refused = refuseUpdate(update, 'not_applicable', error instanceof Error ? error.message : String(error))
  return code === '' ? refused : { ...refused, code }
}

/** An error from neither Postgres nor the connection is a bug that some update provokes. */
export function classifyFailure (error: unknown): PersonsFailure {
  return isBug(error) || classifyPostgresError(error).action === 'refuse' ? 'isolate' : 'retry'
}
