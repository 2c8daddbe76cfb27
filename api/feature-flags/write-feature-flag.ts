import { type Sql, type TransactionSql } from '../../platform/connect-postgres.ts'
import { HttpError } from '../../platform/errors.ts'
import { type FlagDefinition, type ProjectDefinitions } from '../flags/flag-definition.ts'
import { MalformedFlagError } from '../flags/malformed-flag-error.ts'
import { duplicateKey, findDependents, validateFlag } from '../flags/validate-flag.ts'
import { loadDefinitions } from './load-definitions.ts'
import { isUniqueViolation } from '../http/classify-postgres-error.ts'
import { notFound } from '../http/not-found.ts'
import { WRITABLE_FIELDS, type FeatureFlag, type FeatureFlagFields, type NewFeatureFlag } from './feature-flag.ts'
import { findFeatureFlag } from './find-feature-flag.ts'

/** Ids begin at 1, so this is nobody's. */
const NEW_ID = 0

/**
 * Creates a flag.
 *
 * @throws {HttpError} 400 with the field at fault, nested by `__`.
 */
export async function createFeatureFlag (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number }, fields: NewFeatureFlag
): Promise<FeatureFlag> {
  const id = await takeTurns(sql, projectId, async (tx, others) => {
    validateFlag(toDefinition(NEW_ID, fields), others)
    const columns = { ...toColumns(tx, fields), project_id: projectId, created_by: userId }
    const [row] = await tx<Array<{ id: number }>>`INSERT INTO feature_flags ${tx(columns as never)} RETURNING id`
    return row!.id
  })
  return await findFeatureFlag(sql, { projectId, id }, { deleted: true })
}

/**
 * Changes the given fields and no others, and raises the version. `deleted: true` deletes; a flag that other flags ask
 * for stays, and keeps its key.
 *
 * @throws {HttpError} 404; 400 with the field at fault.
 */
export async function updateFeatureFlag (
  sql: Sql, { projectId, id }: { projectId: number, id: number }, fields: FeatureFlagFields
): Promise<FeatureFlag> {
  await takeTurns(sql, projectId, async (tx, others) => {
    const stored = others.flags.find((flag) => flag.id === id)
    if (stored === undefined) throw notFound()
    refuseDependents(stored, fields, others)
    const draft = toDefinition(id, { ...toFields(stored), ...fields })
    // What was stored once may be left as it is, or nobody could switch off a flag with malformed filters.
    const isChecked = fields.deleted !== true && (fields.filters !== undefined || fields.key !== undefined)
    if (isChecked) validateFlag(draft, others)
    const columns = { ...toColumns(tx, fields), updated_at: new Date() }
    await tx`UPDATE feature_flags SET ${tx(columns as never)}, version = version + 1 WHERE id = ${id}`
  })
  return await findFeatureFlag(sql, { projectId, id }, { deleted: true })
}

/**
 * Runs a change with everything it is checked against. Writers of a project's flags take turns, because two changes
 * that are each right may be wrong together: two flags that begin to ask for each other.
 */
async function takeTurns<T> (
  sql: Sql, projectId: number, change: (tx: TransactionSql, others: ProjectDefinitions) => Promise<T>
): Promise<T> {
  try {
    const result = await sql.begin(async (tx) => {
      await tx`SELECT FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
      const others = await loadDefinitions(tx, projectId)
      if (others === null) throw notFound()
      return { value: await change(tx, others) }
    })
    return result.value as T
  } catch (error) {
    // Somebody else who does not take turns, such as an experiment, took the key.
    const reason = isUniqueViolation(error, 'feature_flags_key') ? duplicateKey() : error
    throw reason instanceof MalformedFlagError ? toHttpError(reason) : reason
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

function toHttpError (error: MalformedFlagError): HttpError {
  return new HttpError(400, 'validation_error', error.code, error.message, { attr: error.attr, cause: error })
}

function toDefinition (id: number, fields: FeatureFlagFields): FlagDefinition {
  return {
    id,
    key: fields.key ?? '',
    name: fields.name ?? '',
    filters: fields.filters ?? { groups: [] },
    active: fields.active ?? true,
    ensureExperienceContinuity: fields.ensure_experience_continuity ?? false,
    version: 1,
    evaluationRuntime: fields.evaluation_runtime ?? 'all',
    bucketingIdentifier: fields.bucketing_identifier ?? 'distinct_id',
    hasExperiment: false
  }
}

function toFields (flag: FlagDefinition): FeatureFlagFields {
  return {
    key: flag.key,
    name: flag.name,
    filters: flag.filters,
    active: flag.active,
    ensure_experience_continuity: flag.ensureExperienceContinuity,
    evaluation_runtime: flag.evaluationRuntime,
    bucketing_identifier: flag.bucketingIdentifier
  }
}

function toColumns (tx: TransactionSql, fields: FeatureFlagFields): Record<string, unknown> {
  const given = WRITABLE_FIELDS.filter((name) => fields[name] !== undefined)
  return Object.fromEntries(given.map((name) =>
    [name, name === 'filters' ? tx.json(fields.filters as never) : fields[name]]))
}
