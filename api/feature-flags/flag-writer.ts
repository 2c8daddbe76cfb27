import { type TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type FlagDefinition, type ProjectDefinitions } from '../flags/flag-definition.ts'
import { duplicateKey, validateFlag } from '../flags/validate-flag.ts'
import { isUniqueViolation } from '../http/classify-postgres-error.ts'
import { notFound } from '../http/errors.ts'
import { WRITABLE_FIELDS, type FeatureFlagFields, type NewFeatureFlag } from './feature-flag.ts'
import { loadDefinitions } from './load-definitions.ts'

/** Ids begin at 1, so this is nobody's. */
const NEW_ID = 0

/** The one way in which flags are written, anyone who wants it: checked against everything else in the project. */
export interface FlagWriter {
  /** Everything in the project, as it was when the writer was opened. */
  definitions: ProjectDefinitions
  /**
   * @returns the id of the new flag.
   * @throws {MalformedFlagError} naming the field at fault.
   */
  insert: (fields: NewFeatureFlag, userId: number) => Promise<number>
  /**
   * Changes the given fields and no others, and raises the version.
   *
   * @throws {MalformedFlagError} naming the field at fault; {HttpError} 404 for a flag the project does not have.
   */
  change: (id: number, fields: FeatureFlagFields) => Promise<void>
  /** The experiments that run on a flag: launched, not ended, not deleted. Who starts one takes a turn too. */
  findRunning: (id: number) => Promise<RunningExperiment[]>
}

export interface RunningExperiment {
  id: number
  name: string
}

/**
 * Opens the flags of a project for writing, until the transaction ends. Writers take turns, because two changes that
 * are each right may be wrong together: two flags that begin to ask for each other, or one that deletes a flag and one
 * that launches an experiment on it.
 *
 * @throws {HttpError} 404 for a project that does not exist.
 */
export async function openFlagWriter (tx: TransactionSql, projectId: number): Promise<FlagWriter> {
  await tx`SELECT FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
  const definitions = await loadDefinitions(tx, projectId)
  if (definitions === null) throw notFound()

  return {
    definitions,
    async insert (fields, userId) {
      validateFlag(toDefinition(NEW_ID, fields), definitions)
      const columns = { ...toColumns(tx, fields), project_id: projectId, created_by: userId }
      const [row] = await tx<Array<{ id: number }>>`INSERT INTO feature_flags ${tx(columns as never)} RETURNING id`
        .catch(translate)
      return row!.id
    },
    async change (id, fields) {
      const stored = findFlag(definitions, id)
      // What was stored once may be left as it is, or nobody could switch off a flag with malformed filters.
      const isChecked = fields.deleted !== true && (fields.filters !== undefined || fields.key !== undefined)
      if (isChecked) validateFlag(toDefinition(id, { ...toFields(stored), ...fields }), definitions)
      const columns = { ...toColumns(tx, fields), updated_at: new Date() }
      await tx`UPDATE feature_flags SET ${tx(columns as never)}, version = version + 1 WHERE id = ${id}`.catch(translate)
    },
    findRunning: async (id) => await tx<RunningExperiment[]>`
      SELECT id, name FROM experiments
      WHERE feature_flag_id = ${id} AND NOT deleted AND start_date IS NOT NULL AND (end_date IS NULL OR end_date > now())
      ORDER BY id`
  }
}

/** Says which experiments stand against a change. */
export function describeRunning (running: readonly RunningExperiment[]): string {
  const names = running.slice(0, 10).map(({ id, name }) => `"${name.slice(0, 100)}" (${id})`).join(', ')
  return `${running.length === 1 ? 'An experiment runs' : 'Experiments run'} on this feature flag: ${names}.`
}

/** @throws {HttpError} 404. */
export function findFlag ({ flags }: ProjectDefinitions, id: number): FlagDefinition {
  const flag = flags.find((candidate) => candidate.id === id)
  if (flag === undefined) throw notFound()
  return flag
}

/** Somebody else who does not take turns took the key. */
function translate (error: unknown): never {
  throw isUniqueViolation(error, 'feature_flags_key') ? duplicateKey() : error
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
