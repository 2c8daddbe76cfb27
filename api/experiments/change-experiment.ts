import { invalidField } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import { notFound } from '../http/answer-errors.ts'
import type { FlagActor } from '../flags/management/flag-changes.ts'
import type { FlagWriter } from '../flags/management/write-feature-flag.ts'
import { sameVariants, variantsOfFlag } from '../../engines/flags/flag-definition.ts'
import { requireCohorts } from '../questions/used-cohorts.ts'
import { readAnalysisSettings } from './analysis-settings.ts'
import {
  type ExperimentFields, type NewExperiment, refuseEndBeforeStart, refuseGlobalProperties, refuseUnknownFields
} from './experiment-body.ts'
import {
  linkOrCreateFlag, readVariants, setFlagVariants, switchOffFlag, switchOnFlag, writeExperiment
} from './experiment-flag.ts'
import { type Experiment, findExperiment, MAX_ID } from './experiment.ts'
import { findKeptFlag, forgetVersions, keepVersions, type KeptFlag } from './experiment-versions.ts'

interface Period {
  start_date: Date | null
  end_date: Date | null
}

interface Stored extends Period {
  name: string
  parameters: Record<string, unknown>
  feature_flag_id: number
  flag_key: string
  flag_filters: unknown
  /** The flag as the launched experiment has it, whatever became of it since the end; undefined for a draft. */
  kept: KeptFlag | undefined
}

interface Change extends FlagActor {
  id: number
}

/**
 * Creates an experiment together with its flag. With a start date it is launched at once.
 *
 * @throws {HttpError} 400 with the words of docs/reference/contract/sdks.md 4.2.
 */
export async function createExperiment (sql: Sql, who: FlagActor, body: NewExperiment): Promise<Experiment> {
  const start = parseIsoDateTime(body.start_date) ?? null
  const end = parseIsoDateTime(body.end_date) ?? null
  refuseEndBeforeStart(start, end)
  await refuseInvalid(sql, who.projectId, body)

  const id = await writeExperiment(sql, { ...who, experiment: body.name }, async ({ tx, flags }) => {
    const flagId = await linkOrCreateFlag(flags, {
      key: body.feature_flag_key,
      experimentName: body.name,
      parameters: body.parameters,
      active: start !== null,
      hasEnded: hasEnded({ end_date: end })
    })
    const own = { project_id: who.projectId, feature_flag_id: flagId, created_by: who.userId }
    const columns = { ...toColumns(tx, { ...EMPTY, ...body }, start, end), ...own }
    const [row] = await tx<[{ id: number }]>`INSERT INTO experiments ${tx(columns)} RETURNING id`
    await keepVersions(tx, { experimentId: row.id })
    return row.id
  })
  return await findExperiment(sql, who.projectId, id)
}

/**
 * Changes the given fields and no others. People who change experiments and flags of a project at once take turns, and
 * the flag follows the launch in the same transaction.
 *
 * @throws {HttpError} 404; 400 with the words of docs/reference/contract/sdks.md 4.3.
 */
export async function updateExperiment (sql: Sql, change: Change, body: ExperimentFields): Promise<Experiment> {
  refuseUnknownFields(body)
  await refuseInvalid(sql, change.projectId, body)
  const { id, name } = await findExperiment(sql, change.projectId, change.id)

  await writeExperiment(sql, { ...change, experiment: name }, async ({ tx, flags }) => {
    const stored = await lockExperiment(tx, id)
    const start = body.start_date === undefined ? stored.start_date : parseIsoDateTime(body.start_date) ?? null
    const end = body.end_date === undefined ? stored.end_date : parseIsoDateTime(body.end_date) ?? null
    refuseEndBeforeStart(start, end)

    const flagId = await followFlag(flags, { change, stored, body, period: { start_date: start, end_date: end } })
    if (Object.keys(body).length === 0) return
    const columns = { ...toColumns(tx, body, start, end), feature_flag_id: flagId }
    await tx`UPDATE experiments SET ${tx(columns)}, updated_at = now() WHERE id = ${id}`
    await (start === null ? forgetVersions(tx, id) : keepVersions(tx, { experimentId: id }))
  })
  return await findExperiment(sql, change.projectId, id)
}

/**
 * Deletes an experiment: it is gone from every answer. Its flag stays, because people may still see its variants.
 *
 * @throws {HttpError} 404.
 */
export async function deleteExperiment (sql: Sql, projectId: number, id: number): Promise<void> {
  if (id > MAX_ID) throw notFound()
  const deleted = await sql`
    UPDATE experiments SET deleted = true, updated_at = now()
    WHERE project_id = ${projectId} AND id = ${id} AND NOT deleted RETURNING id`
  if (deleted.length === 0) throw notFound()
}

async function lockExperiment (tx: TransactionSql, id: number): Promise<Stored> {
  const [stored] = await tx<Omit<Stored, 'kept'>[]>`
    SELECT e.name, e.start_date, e.end_date, e.parameters, e.feature_flag_id, f.key AS flag_key, f.filters AS flag_filters
    FROM experiments e JOIN feature_flags f ON f.id = e.feature_flag_id
    WHERE e.id = ${id} AND NOT e.deleted
    FOR UPDATE OF e`
  if (stored === undefined) throw notFound()
  return { ...stored, kept: await findKeptFlag(tx, id) }
}

/** @throws {HttpError} 400 naming the field of what results would ignore or could not compute. */
async function refuseInvalid (
  sql: Sql, projectId: number, { filters, parameters, secondary_metrics: secondary }: ExperimentFields
): Promise<void> {
  refuseGlobalProperties(filters)
  readAnalysisSettings(parameters ?? {})
  await requireCohorts(sql, projectId, { filters, parameters, secondary_metrics: secondary })
}

interface Follow {
  change: Change
  stored: Stored
  body: ExperimentFields
  period: Period
}

/**
 * What a change of the experiment does to its flag:
 *
 * | change | flag |
 * |---|---|
 * | a draft is launched, an ended experiment goes on | is switched on, if it is still fit for an experiment |
 * | it becomes a draft again | is switched off, unless another experiment runs on it |
 * | a draft gets other variants | gets them, unless another experiment runs on it |
 * | a draft gets another flag | the new one is linked; the old one stays as it is |
 * | it ends, is archived or deleted | stays as it is |
 *
 * A launched experiment can change neither its variants nor its flag. One that has ended goes on only while the flag
 * has the key and the variants that it had: people who see others cannot be compared with those before.
 *
 * @returns the id of the experiment's flag from now on.
 */
async function followFlag (flags: FlagWriter, { change, stored, body, period }: Follow): Promise<number> {
  const { kept } = stored
  const launched = stored.start_date !== null
  const key = body.feature_flag_key ?? stored.flag_key
  if (key !== stored.flag_key && key !== kept?.key) {
    if (launched) throw invalidField('feature_flag_key', "Can't update feature_flag_key on Experiment")
    return await linkOrCreateFlag(flags, {
      key, experimentName: body.name ?? stored.name, active: period.start_date !== null,
      parameters: body.parameters === undefined ? stored.parameters : body.parameters
    })
  }

  const flagId = stored.feature_flag_id
  const before = variantsOfFlag(kept?.filters ?? stored.flag_filters)
  const requested = readVariants(body.parameters) ?? before
  if (!sameVariants(requested, before)) {
    if (launched) {
      throw invalidField('parameters__feature_flag_variants', "Can't update feature_flag_variants on Experiment")
    }
    await setFlagVariants(flags, { flagId, experimentId: change.id }, requested)
  }
  if (period.start_date === null) {
    if (launched) await switchOffFlag(flags, flagId, change.id)
  } else if (!launched || (hasEnded(stored) && !hasEnded(period))) {
    await switchOnFlag(flags, flagId, requested)
    if (kept !== undefined) requireSameFlag(stored, kept)
  }
  return flagId
}

function requireSameFlag ({ flag_key: key, flag_filters: filters }: Stored, kept: KeptFlag): void {
  if (key === kept.key && sameVariants(variantsOfFlag(filters), variantsOfFlag(kept.filters))) return
  throw invalidField('feature_flag_key',
    'The key or variants of the feature flag have changed since the experiment ended. Restore them, or create a new experiment.', 'flag_changed')
}

function hasEnded ({ end_date: end }: Pick<Period, 'end_date'>): boolean {
  return end !== null && end.getTime() <= Date.now()
}

const EMPTY = { description: '', start_date: null, end_date: null, parameters: {}, secondary_metrics: {}, filters: {}, archived: false }

/** The columns of the fields that are given. */
function toColumns (
  tx: TransactionSql, body: ExperimentFields, start: Date | null, end: Date | null
): Record<string, unknown> {
  const json = (value: unknown): unknown => tx.json(value ?? {})
  const { name, description, archived, parameters, secondary_metrics: secondary, filters } = body
  const columns = {
    name, description: description ?? '', archived, start_date: start, end_date: end,
    parameters: json(parameters), secondary_metrics: json(secondary), filters: json(filters)
  }
  return Object.fromEntries(Object.entries(columns).filter(([column]) => Object.hasOwn(body, column)))
}
