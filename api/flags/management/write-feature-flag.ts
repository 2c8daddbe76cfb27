import { isDeepStrictEqual } from 'node:util'
import { fieldsOf } from '../../../engines/fields.ts'
import type { Sql, TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { HttpError, invalidField } from '../../../engines/errors.ts'
import { cutText } from '../../../engines/body/storable-text.ts'
import { type FlagDefinition, MalformedFlagError, type ProjectDefinitions, sameVariants, variantsOfFlag } from '../../../engines/flags/flag-definition.ts'
import { keepVersions } from '../../experiments/experiment-versions.ts'
import { isUniqueViolation, orNotFound } from '../../http/answer-errors.ts'
import { duplicateKey, findDependents, validateFlag } from './validate-flag.ts'
import { type FeatureFlag, type FeatureFlagChange, type FeatureFlagFields, type NewFeatureFlag, NEW_FLAG, toColumns, WRITABLE_FIELDS } from './feature-flag.ts'
import { findLastAuthor, type FlagActor, recordChange, recordCreation } from './flag-changes.ts'
import { findFeatureFlag } from './read-feature-flags.ts'
import { loadDefinitions } from './load-definitions.ts'

/** The only way to write flags, for the management API and for experiments: each flag is checked with the others. */
export interface FlagWriter {
  /** The definitions of the project when the writer was opened. */
  definitions: ProjectDefinitions
  /**
   * Stores a new flag.
   *
   * @returns its id.
   * @throws {MalformedFlagError} naming the invalid field.
   */
  insert: (fields: NewFeatureFlag) => Promise<number>
  /**
   * Changes the given fields and no others, raises the version if one differs, and keeps what the flag was before, and
   * what the experiments that run on it measure from now on.
   *
   * @throws {MalformedFlagError} naming the invalid field; {HttpError} 404 when the project has no such flag.
   */
  change: (id: number, fields: FeatureFlagFields) => Promise<void>
  /** The experiments that run on a flag: launched, not ended, not deleted. Launching one takes the same lock. */
  findRunning: (id: number) => Promise<RunningExperiment[]>
}

export interface RunningExperiment {
  id: number
  name: string
}

/** Creates a flag. @throws {HttpError} 400 naming the invalid field in `attr`, levels joined by `__`. */
export async function createFeatureFlag (sql: Sql, actor: FlagActor, fields: NewFeatureFlag): Promise<FeatureFlag> {
  const id = await write(sql, actor, async (flags) => await flags.insert(fields))
  return await findFeatureFlag(sql, { projectId: actor.projectId, id }, { deleted: true })
}

/**
 * Changes the given fields, and increases the version if one differs. `deleted: true` deletes the flag.
 *
 * A flag that other flags depend on cannot be deleted or renamed. Nor can one with a running experiment, whose variants
 * cannot be changed either. Both can be switched off, because that is how a harmful change is stopped.
 *
 * @throws {HttpError} 404; 400 naming the invalid field in `attr`; 409 when the flag has changed since.
 */
export async function updateFeatureFlag (
  sql: Sql, { id, ...actor }: FlagActor & { id: number }, change: FeatureFlagChange
): Promise<FeatureFlag> {
  await write(sql, actor, async (flags, tx) => {
    const stored = findFlag(flags.definitions, id)
    const fields = await settleChange(tx, stored, change)
    refuseDependents(stored, fields, flags.definitions)
    await refuseUnderExperiment(stored, fields, flags)
    await flags.change(id, fields)
  })
  return await findFeatureFlag(sql, { projectId: actor.projectId, id }, { deleted: true })
}

async function write<T> (
  sql: Sql, actor: FlagActor, work: (flags: FlagWriter, tx: TransactionSql) => Promise<T>
): Promise<T> {
  try {
    return await sql.begin(async (tx) => await work(await openFlagWriter(tx, actor), tx))
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw invalidField(error.attr, error.message, error.code, error)
  }
}

/**
 * The fields of a change that are to be written, of a flag that may have changed since the change was begun.
 *
 * @throws {HttpError} 409 when somebody changed it since, and the change would undo that.
 */
async function settleChange (
  tx: TransactionSql, stored: FlagDefinition, { version, original_flag: original, ...fields }: FeatureFlagChange
): Promise<FeatureFlagFields> {
  if (version === undefined || version === stored.version) return fields
  const current: Required<FeatureFlagFields> = { ...stored, deleted: false }
  const touched = listChanged(fields, original ?? {})
  const meant = listChanged(fields, current).filter((name) => touched.includes(name))
  const undone = meant.filter((name) => original === undefined ||
    (name in original && !isDeepStrictEqual(current[name], original[name])))
  if (undone.length === 0) return Object.fromEntries(meant.map((name) => [name, fields[name]]))
  const author = await findLastAuthor(tx, { flagId: stored.id, after: version })
  throw new HttpError(409, 'invalid_request', 'conflict',
    `The flag has version ${stored.version}${author === null ? '' : `, saved by ${author}`}; your change is based on version ${version}. ` +
    'Nothing was changed. Reload the flag and resolve the conflict.', { attr: 'version' })
}

function listChanged (fields: FeatureFlagFields, from: Readonly<Record<string, unknown>>): typeof WRITABLE_FIELDS {
  return WRITABLE_FIELDS.filter((name) => fields[name] !== undefined && !isDeepStrictEqual(fields[name], from[name]))
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
    `${describeRunning(running)} End it first: a running experiment locks the key, variants and group type of its flag, and the flag cannot be deleted.`, { attr })
}

/** The field of a change that would invalidate a running experiment, if any. */
function findBreakingField (stored: FlagDefinition, { deleted, key, filters }: FeatureFlagFields): string | undefined {
  if (deleted === true) return 'deleted'
  if (key !== undefined && key !== stored.key) return 'key'
  const changes = filters !== undefined && !sameVariants(variantsOfFlag(filters), variantsOfFlag(stored.filters))
  if (changes) return 'filters__multivariate__variants'
  const regroups = filters !== undefined && groupTypeOf(filters) !== groupTypeOf(stored.filters)
  return regroups ? 'filters__aggregation_group_type_index' : undefined
}

function groupTypeOf (filters: unknown): unknown {
  return fieldsOf(filters).aggregation_group_type_index ?? null
}

/**
 * Locks the flags of a project for writing, until the transaction ends. Writers take turns, because two changes that
 * are each valid may be invalid together: two flags that begin to depend on each other, or deleting a flag while an
 * experiment on it is launched.
 *
 * @throws {HttpError} 404 for a project that does not exist.
 */
export async function openFlagWriter (tx: TransactionSql, actor: FlagActor): Promise<FlagWriter> {
  const { projectId, userId } = actor
  await tx`SELECT FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
  const definitions = orNotFound(await loadDefinitions(tx, projectId))

  return {
    definitions,
    async insert (fields) {
      validateFlag({ ...NEW_FLAG, ...fields, id: NEW_FLAG.id }, definitions)
      const columns = { ...toColumns(tx, fields), project_id: projectId, created_by: userId }
      const [row] = await tx<[{ id: number }]>`INSERT INTO feature_flags ${tx(columns)} RETURNING id`.catch(translate)
      await recordCreation(tx, actor, row.id)
      return row.id
    },
    async change (id, fields) {
      const stored = findFlag(definitions, id)
      if (listChanged(fields, { ...stored, deleted: false }).length === 0) return
      // Unchanged filters are not checked: a flag with malformed ones can still be switched off.
      const isChecked = fields.deleted !== true && (fields.filters !== undefined || fields.key !== undefined)
      if (isChecked) validateFlag({ ...stored, ...fields, id }, definitions)
      await recordChange(tx, actor, { flagId: id, columns: tx({ ...toColumns(tx, fields), updated_at: new Date() }) })
        .catch(translate)
      await keepVersions(tx, { flagId: id })
    },
    findRunning: async (id) => await tx<RunningExperiment[]>`
      SELECT id, name FROM experiments
      WHERE feature_flag_id = ${id} AND NOT deleted AND start_date IS NOT NULL AND (end_date IS NULL OR end_date > now())
      ORDER BY id`
  }
}

export function describeRunning (running: readonly RunningExperiment[]): string {
  const names = running.slice(0, 10).map(({ id, name }) => `"${cutText(name, 100)}" (${id})`).join(', ')
  return `${running.length === 1 ? 'An experiment runs' : 'Experiments run'} on this feature flag: ${names}.`
}

function findFlag ({ flags }: ProjectDefinitions, id: number): FlagDefinition {
  return orNotFound(flags.find((flag) => flag.id === id))
}

/** A writer that did not take the lock used the key first. */
function translate (error: unknown): never {
  throw isUniqueViolation(error, 'feature_flags_key') ? duplicateKey() : error
}
