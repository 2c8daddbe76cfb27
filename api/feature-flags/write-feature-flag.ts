import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { HttpError } from '../../platform/errors.ts'
import { sameVariants, variantsOfFlag, type FlagDefinition, type ProjectDefinitions } from '../flags/flag-definition.ts'
import { MalformedFlagError } from '../flags/malformed-flag-error.ts'
import { findDependents } from '../flags/validate-flag.ts'
import { type FeatureFlag, type FeatureFlagFields, type NewFeatureFlag } from './feature-flag.ts'
import { findFeatureFlag } from './find-feature-flag.ts'
import { describeRunning, findFlag, openFlagWriter, type FlagWriter } from './flag-writer.ts'

/**
 * Creates a flag.
 *
 * @throws {HttpError} 400 with the field at fault, nested by `__`.
 */
export async function createFeatureFlag (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number }, fields: NewFeatureFlag
): Promise<FeatureFlag> {
  const id = await write(sql, projectId, async (flags) => await flags.insert(fields, userId))
  return await findFeatureFlag(sql, { projectId, id }, { deleted: true })
}

/**
 * Changes the given fields and no others, and raises the version. `deleted: true` deletes; a flag that other flags ask
 * for stays, and keeps its key; so does one that an experiment runs on, which keeps its variants too. It can be
 * switched off all the same: that is how something harmful is stopped.
 *
 * @throws {HttpError} 404; 400 with the field at fault.
 */
export async function updateFeatureFlag (
  sql: Sql, { projectId, id }: { projectId: number, id: number }, fields: FeatureFlagFields
): Promise<FeatureFlag> {
  await write(sql, projectId, async (flags) => {
    const stored = findFlag(flags.definitions, id)
    refuseDependents(stored, fields, flags.definitions)
    await refuseUnderExperiment(stored, fields, flags)
    await flags.change(id, fields)
  })
  return await findFeatureFlag(sql, { projectId, id }, { deleted: true })
}

async function write<T> (sql: Sql, projectId: number, work: (flags: FlagWriter) => Promise<T>): Promise<T> {
  try {
    return await sql.begin(async (tx) => await work(await openFlagWriter(tx, projectId))) as T
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw new HttpError(400, 'validation_error', error.code, error.message, { attr: error.attr, cause: error })
  }
}

function refuseDependents (stored: FlagDefinition, fields: FeatureFlagFields, others: ProjectDefinitions): void {
  const attr = fields.deleted === true ? 'deleted' : 'key'
  if (fields.deleted !== true && (fields.key === undefined || fields.key === stored.key)) return
  const dependents = findDependents(stored, others)
  if (dependents.length === 0) return
  throw new HttpError(400, 'validation_error', 'has_dependents',
    `Other feature flags depend on this flag: ${dependents.slice(0, 10).join(', ')}.`, { attr })
}

async function refuseUnderExperiment (
  stored: FlagDefinition, fields: FeatureFlagFields, flags: FlagWriter
): Promise<void> {
  const attr = findBreakingField(stored, fields)
  if (attr === undefined) return
  const running = await flags.findRunning(stored.id)
  if (running.length === 0) return
  throw new HttpError(400, 'validation_error', 'flag_in_use',
    `${describeRunning(running)} End it first; until then the flag keeps its key and variants.`, { attr })
}

/** The field of a change that would take the ground from a running experiment. */
function findBreakingField (stored: FlagDefinition, { deleted, key, filters }: FeatureFlagFields): string | undefined {
  if (deleted === true) return 'deleted'
  if (key !== undefined && key !== stored.key) return 'key'
  const changes = filters !== undefined && !sameVariants(variantsOfFlag(filters), variantsOfFlag(stored.filters))
  return changes ? 'filters__multivariate__variants' : undefined
}
