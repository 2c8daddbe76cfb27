import { type Sql, type TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors/not-found.ts'
import { readDate } from './create-experiment.ts'
import { type ExperimentFields } from './experiment-body.ts'
import { invalidExperiment, refuseEndBeforeStart, refuseGlobalProperties, refuseUnknownFields } from './experiment-errors.ts'
import { linkOrCreateFlag, setFlagActive, setFlagVariants } from './experiment-flag.ts'
import { findExperiment } from './find-experiment.ts'
import { readVariants, sameVariants, variantsOfFlag } from './read-variants.ts'
import { type Experiment } from './experiment.ts'

interface Stored {
  name: string
  start_date: Date | null
  end_date: Date | null
  parameters: Record<string, unknown>
  feature_flag_id: number
  flag_key: string
  flag_filters: unknown
}

/**
 * Changes the given fields and no others. The row is locked meanwhile, so that people who change an experiment at
 * once take turns, and the flag follows the launch in the same transaction.
 *
 * @throws {HttpError} 404; 400 with the words of sdk-compat.md 4.3.
 */
export async function updateExperiment (
  sql: Sql, who: { projectId: number, userId: number, id: number }, body: ExperimentFields
): Promise<Experiment> {
  refuseUnknownFields(body)
  refuseGlobalProperties(body.filters)
  const { id } = await findExperiment(sql, who.projectId, who.id)

  await sql.begin(async (tx) => {
    const stored = await lockExperiment(tx, id)
    const start = body.start_date === undefined ? stored.start_date : readDate(body.start_date)
    const end = body.end_date === undefined ? stored.end_date : readDate(body.end_date)
    refuseEndBeforeStart(start, end)

    const flagId = await followFlag(tx, who, stored, body, start)
    if (Object.keys(body).length === 0) return
    const columns = { ...toColumns(tx, body, start, end), feature_flag_id: flagId }
    await tx`UPDATE experiments SET ${tx(columns as never)}, updated_at = now() WHERE id = ${id}`
  })
  return await findExperiment(sql, who.projectId, id)
}

async function lockExperiment (tx: TransactionSql, id: number): Promise<Stored> {
  const [stored] = await tx<Stored[]>`
    SELECT e.name, e.start_date, e.end_date, e.parameters, e.feature_flag_id, f.key AS flag_key, f.filters AS flag_filters
    FROM experiments e JOIN feature_flags f ON f.id = e.feature_flag_id
    WHERE e.id = ${id} AND NOT e.deleted
    FOR UPDATE`
  if (stored === undefined) throw notFound()
  return stored
}

/**
 * What a change of the experiment does to its flag: a launch switches it on, a return to draft off; a draft may
 * change its variants or take another flag, a launched experiment neither.
 *
 * @returns the id of the experiment's flag from now on.
 */
async function followFlag (
  tx: TransactionSql, who: { projectId: number, userId: number }, stored: Stored, body: ExperimentFields,
  start: Date | null
): Promise<number> {
  const launched = stored.start_date !== null
  const key = body.feature_flag_key ?? stored.flag_key
  if (key !== stored.flag_key) {
    if (launched) throw invalidExperiment('feature_flag_key', "Can't update feature_flag_key on Experiment")
    return await linkOrCreateFlag(tx, {
      ...who, key, experimentName: body.name ?? stored.name, active: start !== null,
      parameters: body.parameters === undefined ? stored.parameters : body.parameters
    })
  }

  const flag = { projectId: who.projectId, flagId: stored.feature_flag_id }
  const variants = readVariants(body.parameters)
  if (variants !== undefined && !sameVariants(variants, variantsOfFlag(stored.flag_filters))) {
    if (launched) {
      throw invalidExperiment('parameters__feature_flag_variants', "Can't update feature_flag_variants on Experiment")
    }
    await setFlagVariants(tx, flag, variants)
  }
  if (launched !== (start !== null)) await setFlagActive(tx, flag, start !== null)
  return stored.feature_flag_id
}

function toColumns (
  tx: TransactionSql, body: ExperimentFields, start: Date | null, end: Date | null
): Record<string, unknown> {
  const columns: Record<string, unknown> = {}
  if (body.name !== undefined) columns['name'] = body.name
  if (body.description !== undefined) columns['description'] = body.description ?? ''
  if (body.archived !== undefined) columns['archived'] = body.archived
  if (body.start_date !== undefined) columns['start_date'] = start
  if (body.end_date !== undefined) columns['end_date'] = end
  for (const field of ['parameters', 'secondary_metrics', 'filters'] as const) {
    if (body[field] !== undefined) columns[field] = tx.json((body[field] ?? {}) as never)
  }
  return columns
}
