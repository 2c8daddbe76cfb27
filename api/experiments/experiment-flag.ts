import { type TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type HttpError } from '../../platform/errors.ts'
import { openFlagWriter, type FlagWriter } from '../feature-flags/flag-writer.ts'
import { MalformedFlagError } from '../flags/malformed-flag-error.ts'
import { invalidExperiment } from './experiment-errors.ts'
import { DEFAULT_VARIANTS, readVariants, sameVariants, variantsOfFlag, type Variant } from './read-variants.ts'

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
 * @returns the id of the flag.
 * @throws {HttpError} 400 with the words of sdk-compat.md 4.2, when the flag is not fit for an experiment or the
 *   wished variants are not.
 */
export async function linkOrCreateFlag (tx: TransactionSql, wish: FlagWish): Promise<number> {
  const variants = readVariants(wish.parameters)
  return await writeFlag(tx, wish.projectId, async (flags) =>
    await linkFlag(flags, wish, variants) ?? await createFlag(flags, wish, variants ?? [...DEFAULT_VARIANTS]))
}

async function linkFlag (
  flags: FlagWriter, wish: FlagWish, wished: Variant[] | undefined
): Promise<number | undefined> {
  const flag = flags.definitions.flags.find(({ key }) => key === wish.key)
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
  if (wish.active && !flag.active) await flags.change(flag.id, { active: true })
  return flag.id
}

async function createFlag (flags: FlagWriter, wish: FlagWish, variants: Variant[]): Promise<number> {
  return await flags.insert({
    key: wish.key,
    name: `Feature Flag for Experiment ${wish.experimentName}`,
    filters: buildFilters(wish.parameters ?? {}, variants),
    active: wish.active,
    ensure_experience_continuity: wish.parameters?.['ensure_experience_continuity'] === true
  }, wish.userId)
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

/**
 * Switches the flag of an experiment.
 *
 * @throws {HttpError} 400 when it is to be switched on, and was deleted.
 */
export async function setFlagActive (
  tx: TransactionSql, { projectId, flagId }: { projectId: number, flagId: number }, active: boolean
): Promise<void> {
  await writeFlag(tx, projectId, async (flags) => {
    const flag = flags.definitions.flags.find(({ id }) => id === flagId)
    if (flag === undefined && active) throw deletedFlag()
    if (flag !== undefined && flag.active !== active) await flags.change(flagId, { active })
  })
}

/**
 * Gives a flag other variants, and leaves its conditions as they are.
 *
 * @throws {HttpError} 400 when something in the flag is about a variant that would be gone.
 */
export async function setFlagVariants (
  tx: TransactionSql, { projectId, flagId }: { projectId: number, flagId: number }, variants: Variant[]
): Promise<void> {
  await writeFlag(tx, projectId, async (flags) => {
    const flag = flags.definitions.flags.find(({ id }) => id === flagId)
    if (flag === undefined) throw deletedFlag()
    const filters = flag.filters as { multivariate?: object | null }
    await flags.change(flagId, { filters: { ...filters, multivariate: { ...filters.multivariate, variants } } })
  })
}

function deletedFlag (): HttpError {
  return invalidExperiment('feature_flag_key', 'The feature flag was deleted; name another one.', 'flag_deleted')
}

/** Writes flags as everybody does, and tells of faults by the names that fields have in an experiment. */
async function writeFlag<T> (
  tx: TransactionSql, projectId: number, work: (flags: FlagWriter) => Promise<T>
): Promise<T> {
  try {
    return await work(await openFlagWriter(tx, projectId))
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw invalidExperiment(toExperimentField(error.attr), error.message, error.code)
  }
}

function toExperimentField (attr: string): string {
  if (attr === 'key') return 'feature_flag_key'
  return attr
    .replace(/^filters__multivariate__variants/, 'parameters__feature_flag_variants')
    .replace(/^filters__aggregation_group_type_index$/, 'parameters__aggregation_group_type_index')
    .replace(/^filters/, 'feature_flag__filters')
}
