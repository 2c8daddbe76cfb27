import { fieldsOf } from '../../engines/fields.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { invalidField } from '../../engines/errors.ts'
import type { FlagActor } from '../flags/management/flag-changes.ts'
import { describeRunning, type FlagWriter, openFlagWriter } from '../flags/management/write-feature-flag.ts'
import { type FlagDefinition, MalformedFlagError, sameVariants, type Variant, variantsOfFlag } from '../../engines/flags/flag-definition.ts'

export interface ExperimentWriter {
  tx: TransactionSql
  flags: FlagWriter
}

export interface FlagSpec {
  key: string
  /** Of the experiment; part of the flag's own. */
  experimentName: string
  parameters: Record<string, unknown> | null | undefined
  /** Whether the experiment is launched at once. */
  active: boolean
  /** The experiment is over: a flag that it is linked with stays as it is. */
  hasEnded?: boolean
}

/**
 * Writes an experiment in one transaction with its flag. Everybody who writes flags or experiments of a project takes
 * turns, from before the first reading, and in the same order of locks.
 *
 * @throws {HttpError} what the work throws; faults of flags by the names that fields have in an experiment.
 */
export async function writeExperiment<T> (
  sql: Sql, actor: FlagActor, work: (writer: ExperimentWriter) => Promise<T>
): Promise<T> {
  try {
    return await sql.begin(async (tx) => await work({ tx, flags: await openFlagWriter(tx, actor) }))
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw invalidField(toExperimentField(error.attr), error.message, error.code)
  }
}

/**
 * Links the flag with the key, or makes it: an experiment always has one.
 *
 * @returns the id of the flag.
 * @throws {HttpError} 400 with the words of docs/reference/contract/sdks.md 4.2, when the flag is not fit for an
 *   experiment or the requested variants are not.
 */
export async function linkOrCreateFlag (flags: FlagWriter, spec: FlagSpec): Promise<number> {
  const requested = readVariants(spec.parameters)
  const flag = flags.definitions.flags.find(({ key }) => key === spec.key)
  if (flag === undefined) return await createFlag(flags, spec, requested ?? [...DEFAULT_VARIANTS])
  const variants = variantsOfFlag(flag.filters)
  requireFit(variants)
  if (requested !== undefined && !sameVariants(requested, variants)) {
    throw invalidField('parameters__feature_flag_variants', 'The feature flag exists with other variants; leave feature_flag_variants out to use them.')
  }
  if (spec.active && spec.hasEnded !== true && !flag.active) await flags.change(flag.id, { active: true })
  return flag.id
}

function requireFit (variants: readonly Variant[]): void {
  if (variants.length < 2) {
    throw invalidField('feature_flag_key', 'Feature flag must have at least 2 variants (control and at least one test variant)')
  }
  if (!variants.some(({ key }) => key === 'control')) {
    throw invalidField('feature_flag_key', "Feature flag must have a variant with key 'control'")
  }
}

async function createFlag (flags: FlagWriter, spec: FlagSpec, variants: Variant[]): Promise<number> {
  return await flags.insert({
    key: spec.key,
    name: `Feature Flag for Experiment ${spec.experimentName}`,
    filters: buildFilters(spec.parameters ?? {}, variants),
    active: spec.active,
    ensure_experience_continuity: spec.parameters?.['ensure_experience_continuity'] === true
  })
}

function buildFilters (parameters: Record<string, unknown>, variants: Variant[]): Record<string, unknown> {
  const { rollout_percentage: percentage } = parameters
  const groupType = readGroupTypeIndex(parameters)
  return {
    groups: [{ properties: [], rollout_percentage: typeof percentage === 'number' ? percentage : 100 }],
    multivariate: { variants },
    ...(groupType === undefined ? {} : { aggregation_group_type_index: groupType })
  }
}

/** The group type that people are counted by; undefined for persons. */
export function readGroupTypeIndex (parameters: Record<string, unknown>): number | undefined {
  const index = parameters['aggregation_group_type_index'] ?? undefined
  if (index === undefined || (typeof index === 'number' && Number.isInteger(index) && index >= 0)) return index
  throw invalidField('parameters__aggregation_group_type_index', 'aggregation_group_type_index must be the number of a group type.')
}

/**
 * Switches the flag of an experiment on, which begins to run.
 *
 * @param variants  Those it will have then.
 * @throws {HttpError} 400 when it was deleted, or is not fit for an experiment any more.
 */
export async function switchOnFlag (flags: FlagWriter, flagId: number, variants: readonly Variant[]): Promise<void> {
  const flag = requireFlag(flags, flagId)
  requireFit(variants)
  if (!flag.active) await flags.change(flagId, { active: true })
}

/** Switches the flag of an experiment off, which became a draft again, unless another experiment runs on it. */
export async function switchOffFlag (flags: FlagWriter, flagId: number, experimentId: number): Promise<void> {
  const flag = flags.definitions.flags.find(({ id }) => id === flagId)
  if (flag?.active !== true || (await findOthers(flags, flagId, experimentId)).length > 0) return
  await flags.change(flagId, { active: false })
}

/**
 * Gives the flag of a draft other variants, and leaves its conditions as they are.
 *
 * @throws {HttpError} 400 when another experiment runs on the flag, and when something in the flag is about a variant
 *   that would be gone.
 */
export async function setFlagVariants (
  flags: FlagWriter, { flagId, experimentId }: { flagId: number, experimentId: number }, variants: Variant[]
): Promise<void> {
  const flag = requireFlag(flags, flagId)
  const others = await findOthers(flags, flagId, experimentId)
  if (others.length > 0) {
    throw invalidField('parameters__feature_flag_variants', `${describeRunning(others)} Its variants stay as they are.`, 'flag_in_use')
  }
  const filters = flag.filters as { multivariate?: object | null }
  await flags.change(flagId, { filters: { ...filters, multivariate: { ...filters.multivariate, variants } } })
}

async function findOthers (flags: FlagWriter, flagId: number, experimentId: number): ReturnType<FlagWriter['findRunning']> {
  return (await flags.findRunning(flagId)).filter(({ id }) => id !== experimentId)
}

/** @throws {HttpError} 400 when it was deleted. */
function requireFlag (flags: FlagWriter, flagId: number): FlagDefinition {
  const flag = flags.definitions.flags.find(({ id }) => id === flagId)
  if (flag === undefined) throw invalidField('feature_flag_key', 'The feature flag was deleted; name another one.', 'flag_deleted')
  return flag
}

function toExperimentField (attr: string): string {
  if (attr === 'key') return 'feature_flag_key'
  return attr
    .replace(/^filters__multivariate__variants/, 'parameters__feature_flag_variants')
    .replace(/^filters__aggregation_group_type_index$/, 'parameters__aggregation_group_type_index')
    .replace(/^filters/, 'feature_flag__filters')
}

const DEFAULT_VARIANTS: readonly Variant[] = [
  { key: 'control', name: 'Control', rollout_percentage: 50 },
  { key: 'test', name: 'Test', rollout_percentage: 50 }
]

const VARIANTS_FIELD = 'parameters__feature_flag_variants'

/** The reference's limit; its clients know the sentence. */
const TOO_MANY = 11

/**
 * Reads the variants a client asks for in `parameters.feature_flag_variants`.
 *
 * @returns undefined when it named none.
 * @throws {HttpError} 400 with the words of docs/reference/contract/sdks.md 4.2.
 */
export function readVariants (parameters: Record<string, unknown> | null | undefined): Variant[] | undefined {
  const value = parameters?.['feature_flag_variants']
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) throw invalidField(VARIANTS_FIELD, 'feature_flag_variants must be an array of variants.')
  const variants = value.map(readVariant)
  if (variants.length >= TOO_MANY) throw invalidField(VARIANTS_FIELD, 'Feature flag variants must be less than 11')
  if (!variants.some(({ key }) => key === 'control')) {
    throw invalidField(VARIANTS_FIELD, 'Feature flag variants must contain a control variant')
  }
  if (variants.length < 2) {
    throw invalidField(VARIANTS_FIELD, 'Feature flag must have at least 2 variants (control and at least one test variant)')
  }
  if (new Set(variants.map(({ key }) => key)).size < variants.length) {
    throw invalidField(VARIANTS_FIELD, 'Feature flag variants must have different keys.')
  }
  const sum = variants.reduce((total, variant) => total + variant.rollout_percentage, 0)
  // Sums such as that of 33.3, 33.3 and 33.4 are not exact in binary.
  if (Math.abs(sum - 100) > 1e-6) {
    throw invalidField(VARIANTS_FIELD, 'Invalid variant definitions: Variant rollout percentages must sum to 100.')
  }
  return variants
}

function readVariant (value: unknown, index: number): Variant {
  const { key, name, rollout_percentage: percentage } = fieldsOf(value)
  const attr = `${VARIANTS_FIELD}__${index}`
  if (typeof key !== 'string' || !/^[A-Za-z0-9_-]{1,400}$/.test(key)) {
    throw invalidField(`${attr}__key`, 'key of a variant must be letters, numbers, hyphens and underscores.')
  }
  if (typeof percentage !== 'number' || percentage < 0 || percentage > 100) {
    throw invalidField(`${attr}__rollout_percentage`, 'rollout_percentage of a variant must be a number from 0 to 100.')
  }
  return { key, ...(typeof name === 'string' ? { name } : {}), rollout_percentage: percentage }
}
