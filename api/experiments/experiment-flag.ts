import { type TransactionSql } from '../../platform/connect-postgres.ts'
import { DEFAULT_VARIANTS, readVariants, sameVariants, variantsOfFlag, type Variant } from './read-variants.ts'
import { invalidExperiment } from './experiment-errors.ts'

/** What an experiment needs to know of its flag. */
export interface ExperimentFlag {
  id: number
  key: string
  active: boolean
  filters: Record<string, unknown>
}

export interface FlagWish {
  projectId: number
  userId: number
  key: string
  /** Of the experiment; part of the flag's own. */
  experimentName: string
  parameters: Record<string, unknown> | null | undefined
  /** Whether the experiment is launched at once. */
  active: boolean
}

/**
 * Links the flag with the key, or makes it: an experiment always has one.
 *
 * @throws {HttpError} 400 with the words of sdk-compat.md 4.2, when the flag is not fit for an experiment or the
 *   wished variants are not.
 */
export async function linkOrCreateFlag (tx: TransactionSql, wish: FlagWish): Promise<ExperimentFlag> {
  const variants = readVariants(wish.parameters)
  return await linkFlag(tx, wish, variants) ?? await createFlag(tx, wish, variants ?? [...DEFAULT_VARIANTS]) ??
    // Somebody else made it at this moment.
    await linkFlag(tx, wish, variants) ?? raise()
}

function raise (): never {
  throw new Error('the flag neither exists nor could be made')
}

async function linkFlag (
  tx: TransactionSql, wish: FlagWish, wished: Variant[] | undefined
): Promise<ExperimentFlag | undefined> {
  const [flag] = await tx<ExperimentFlag[]>`
    SELECT id, key, active, filters FROM feature_flags
    WHERE project_id = ${wish.projectId} AND key = ${wish.key} AND NOT deleted
    FOR UPDATE`
  if (flag === undefined) return undefined
  const variants = variantsOfFlag(flag.filters)
  if (variants.length < 2) {
    throw invalidExperiment('feature_flag_key', 'Feature flag must have at least 2 variants (control and at least one test variant)')
  }
  if (!variants.some(({ key }) => key === 'control')) {
    throw invalidExperiment('feature_flag_key', "Feature flag must have a variant with key 'control'")
  }
  if (wished !== undefined && !sameVariants(wished, variants)) {
    throw invalidExperiment('parameters__feature_flag_variants', 'The feature flag exists with other variants; leave feature_flag_variants out to use them.')
  }
  if (wish.active && !flag.active) await setFlagActive(tx, flag.id, true)
  return flag
}

async function createFlag (
  tx: TransactionSql, wish: FlagWish, variants: Variant[]
): Promise<ExperimentFlag | undefined> {
  if (!/^[A-Za-z0-9_-]+$/.test(wish.key)) {
    throw invalidExperiment('feature_flag_key', 'Only letters, numbers, hyphens (-) & underscores (_) are allowed.', 'invalid_key')
  }
  const filters = buildFilters(wish.parameters ?? {}, variants)
  const [flag] = await tx<ExperimentFlag[]>`
    INSERT INTO feature_flags (project_id, key, name, filters, active, ensure_experience_continuity, created_by)
    VALUES (${wish.projectId}, ${wish.key}, ${`Feature Flag for Experiment ${wish.experimentName}`},
      ${tx.json(filters as never)}, ${wish.active}, ${wish.parameters?.['ensure_experience_continuity'] === true},
      ${wish.userId})
    ON CONFLICT DO NOTHING
    RETURNING id, key, active, filters`
  return flag
}

function buildFilters (parameters: Record<string, unknown>, variants: Variant[]): Record<string, unknown> {
  const groupType = readGroupTypeIndex(parameters)
  return {
    groups: [{ properties: [], rollout_percentage: readRollout(parameters) }],
    multivariate: { variants },
    ...(groupType === undefined ? {} : { aggregation_group_type_index: groupType })
  }
}

function readRollout ({ rollout_percentage: percentage = 100 }: Record<string, unknown>): number {
  if (typeof percentage === 'number' && percentage >= 0 && percentage <= 100) return percentage
  throw invalidExperiment('parameters__rollout_percentage', 'rollout_percentage must be a number from 0 to 100.')
}

/** The group type that people are counted by; undefined for persons. */
export function readGroupTypeIndex (parameters: Record<string, unknown>): number | undefined {
  const index = parameters['aggregation_group_type_index'] ?? undefined
  if (index === undefined || (Number.isInteger(index) && index as number >= 0)) return index as number | undefined
  throw invalidExperiment('parameters__aggregation_group_type_index', 'aggregation_group_type_index must be the number of a group type.')
}

/** Switches a flag; the API processes hear of it by NOTIFY. */
export async function setFlagActive (tx: TransactionSql, flagId: number, active: boolean): Promise<void> {
  await tx`
    UPDATE feature_flags SET active = ${active}, version = version + 1, updated_at = now()
    WHERE id = ${flagId} AND active <> ${active}`
}

/** Gives a flag other variants, and leaves its conditions as they are. */
export async function setFlagVariants (tx: TransactionSql, flagId: number, variants: Variant[]): Promise<void> {
  await tx`
    UPDATE feature_flags SET version = version + 1, updated_at = now(),
      filters = jsonb_set(filters, '{multivariate}', ${tx.json({ variants } as never)})
    WHERE id = ${flagId}`
}
