import { compileFlag } from '../../../engines/flags/compile-flag.ts'
import { compileFlagSet, createContextFactory } from '../../../engines/flags/evaluate-flags.ts'
import { type FlagDefinition, MalformedFlagError, type ProjectDefinitions } from '../../../engines/flags/flag-definition.ts'
import { type ParsedFilters, parseFilters } from '../../../engines/flags/parse-filters.ts'

const KEY_PATTERN = /^[a-zA-Z0-9_-]+$/

/** Variants are also names of what a service answers, such as `provider/model-1.2`. */
const VARIANT_PATTERN = /^[a-zA-Z0-9_./-]+$/

/** Characters; the length of the column in Postgres. */
const MAX_KEY_LENGTH = 400

/** Sums of percentages such as 33.3, 33.3 and 33.4 are not exact in binary. */
const SUM_TOLERANCE = 1e-6

/**
 * Checks a flag before it is written, with everything that it refers to.
 *
 * @param draft   The flag as it would be stored; `id` is that of the stored flag, if there is one.
 * @param others  The definitions of the project, with or without the stored flag.
 * @throws {MalformedFlagError} naming the first invalid field.
 */
export function validateFlag (draft: FlagDefinition, others: ProjectDefinitions): void {
  checkKey(draft, others)
  const filters = parseFilters(draft.filters)
  checkVariants(filters)
  filters.conditions.forEach((condition, index) => {
    const attr = `filters__groups__${index}`
    checkPercentage(condition.rolloutPercentage, `${attr}__rollout_percentage`)
    if (condition.variant !== null && !hasVariant(filters, condition.variant)) {
      throw new MalformedFlagError('invalid', `${attr}__variant`, `There is no variant "${condition.variant}".`)
    }
  })
  if (filters.holdout !== null) checkPercentage(filters.holdout.percentage, 'filters__holdout__exclusion_percentage')
  checkPayloads(filters)
  checkGroupTypes(filters, others)
  checkReferences(draft, others)
}

function checkKey ({ id, key }: FlagDefinition, { flags }: ProjectDefinitions): void {
  if (key === '') throw new MalformedFlagError('required', 'key', 'This field may not be blank.')
  if (!KEY_PATTERN.test(key)) {
    throw new MalformedFlagError('invalid_key', 'key', 'Only letters, numbers, hyphens (-) & underscores (_) are allowed.')
  }
  if (key.length > MAX_KEY_LENGTH) {
    throw new MalformedFlagError('invalid', 'key', `A key has at most ${MAX_KEY_LENGTH} characters.`)
  }
  if (flags.some((flag) => flag.key === key && flag.id !== id)) throw duplicateKey()
}

/** The wording is PostHog's; clients compare it. */
export function duplicateKey (): MalformedFlagError {
  return new MalformedFlagError('unique', 'key', 'There is already a feature flag with this key.')
}

function checkVariants ({ variants, restWithoutVariant }: ParsedFilters): void {
  const attr = 'filters__multivariate__variants'
  variants.forEach(({ key, rolloutPercentage }, index) => {
    if (!VARIANT_PATTERN.test(key)) {
      throw new MalformedFlagError('invalid_key', `${attr}__${index}__key`,
        'Only letters, numbers, hyphens (-), underscores (_), dots (.) & slashes (/) are allowed.')
    }
    if (variants.findIndex((variant) => variant.key === key) !== index) {
      throw new MalformedFlagError('unique', `${attr}__${index}__key`, `There are two variants "${key}".`)
    }
    checkPercentage(rolloutPercentage, `${attr}__${index}__rollout_percentage`)
  })
  const sum = variants.reduce((total, { rolloutPercentage }) => total + rolloutPercentage, 0)
  if (variants.length > 0 && (sum - 100 > SUM_TOLERANCE || (100 - sum > SUM_TOLERANCE && !restWithoutVariant))) {
    throw new MalformedFlagError('invalid', attr, `The percentages of the variants must sum to 100; they sum to ${sum}.`)
  }
}

function checkPercentage (percentage: number, attr: string): void {
  if (percentage >= 0 && percentage <= 100) return
  throw new MalformedFlagError('invalid', attr, 'A percentage must be from 0 to 100.')
}

function checkPayloads (filters: ParsedFilters): void {
  for (const name of filters.payloads.keys()) {
    if (name === 'true' || hasVariant(filters, name) || filters.holdout?.variant === name) continue
    throw new MalformedFlagError('invalid', 'filters__payloads', `There is a payload for the variant "${name}", which does not exist.`)
  }
}

function checkGroupTypes (filters: ParsedFilters, { groupTypes }: ProjectDefinitions): void {
  const check = (index: number | null, attr: string): void => {
    if (index === null || groupTypes.has(index)) return
    throw new MalformedFlagError('invalid', attr, `There is no group type with index ${index}.`)
  }
  check(filters.aggregation, 'filters__aggregation_group_type_index')
  filters.conditions.forEach(({ aggregation, properties }, index) => {
    check(aggregation, `filters__groups__${index}__aggregation_group_type_index`)
    for (const { groupTypeIndex, attr } of properties) check(groupTypeIndex, `${attr}__group_type_index`)
  })
}

/** Compiles the flag with the others, which finds invalid values, unknown cohorts and flags, and dependency cycles. */
function checkReferences (draft: FlagDefinition, others: ProjectDefinitions): void {
  const flag = { ...draft, active: true }
  const flags = [...others.flags.filter(({ id }) => id !== draft.id), flag]
  const definitions = { ...others, flags }
  const set = compileFlagSet(definitions)
  const context = createContextFactory(definitions, { ...set, staticCohorts: new Set(), strict: true })()
  compileFlag(flag, context, () => ({ count: 0 }))
  const [missing] = context.missingFlags
  if (missing !== undefined) {
    throw new MalformedFlagError('invalid', missing.attr, `There is no feature flag "${missing.reference}".`)
  }
  if (set.flags.at(-1)?.broken === 'dependency_cycle') {
    throw new MalformedFlagError('invalid', 'filters__groups', 'This flag would depend on itself.')
  }
}

function hasVariant ({ variants }: ParsedFilters, key: string): boolean {
  return variants.some((variant) => variant.key === key)
}

/** Keys of the flags that depend on a flag, by its key or id. */
export function findDependents ({ id, key }: Pick<FlagDefinition, 'id' | 'key'>, { flags }: ProjectDefinitions): string[] {
  return flags.filter((flag) => flag.id !== id && dependsOn(flag.filters, key, id)).map((flag) => flag.key)
}

function dependsOn (filters: unknown, key: string, id: number): boolean {
  try {
    return parseFilters(filters).conditions.some(({ properties }) =>
      properties.some((property) => property.type === 'flag' && (property.key === key || property.key === String(id))))
  } catch {
    // Malformed filters depend on nothing.
    return false
  }
}
