/**
 * How the results of an experiment are computed, as `parameters` say it: `excluded_variants`, `custom_exposure_filter`,
 * `exposure_criteria` and `stats_config`, by the names and with the meaning that PostHog has. What is not obeyed is
 * refused by name.
 */
import { invalidField } from '../../engines/errors.ts'
import { fieldsOf, isFields } from '../../engines/fields.ts'
import { type PropertyCondition, readConditions } from '../../engines/operators/property-conditions.ts'

export interface AnalysisSettings {
  /** Variants that are left out of results, with everybody who saw no other. */
  excluded: string[]
  /** Variant that the others are compared with; null for `control`, or the first. */
  baseline: string | null
  /** Event that exposes, with the variant in its property `$feature/<key>`; null for `$feature_flag_called`. */
  exposure: { event: string, where: PropertyCondition[] } | null
  isFirstSeen: boolean
  /** How many days before the exposure CUPED looks at; 0 without CUPED. */
  lookbackDays: number
}

const DEFAULT_LOOKBACK_DAYS = 14
const MAX_LOOKBACK_DAYS = 90

/** @throws {HttpError} 400 naming what cannot be obeyed. */
export function readAnalysisSettings (parameters: Readonly<Record<string, unknown>>): AnalysisSettings {
  const { exposure_criteria: criteria = null, stats_config: stats = null } = parameters
  const { custom_exposure_filter: filter = null } = parameters
  const { exposure_config: config = null, multiple_variant_handling: handling = 'exclude', filterTestAccounts: filters = false } =
    readObject('exposure_criteria', criteria, ['exposure_config', 'multiple_variant_handling', 'filterTestAccounts'])
  const { baseline_variant_key: baseline = null, cuped = null, method = 'bayesian' } =
    readObject('stats_config', stats, ['baseline_variant_key', 'cuped', 'method', 'version'])
  if (filters !== false) refuse('exposure_criteria__filterTestAccounts', 'must be false: there are no test accounts to filter')
  if (handling !== 'exclude' && handling !== 'first_seen') refuse('exposure_criteria__multiple_variant_handling', 'must be exclude or first_seen')
  if (baseline !== null && (typeof baseline !== 'string' || baseline === '')) refuse('stats_config__baseline_variant_key', 'must be the key of a variant')
  if (method !== 'bayesian' && method !== 'frequentist') refuse('stats_config__method', 'must be bayesian or frequentist: results have both')
  if (config !== null && !isEmpty(filter)) refuse('custom_exposure_filter', 'must be empty beside an exposure_config')
  return {
    excluded: readExcluded(parameters['excluded_variants'] ?? null),
    baseline,
    exposure: config === null ? readFilter(filter) : readConfig(config),
    isFirstSeen: handling === 'first_seen',
    lookbackDays: readLookback(cuped)
  }
}

function refuse (path: string, must: string): never {
  throw invalidField(`parameters__${path}`, `${path.split('__').at(-1)} ${must}.`)
}

function readObject (path: string, value: unknown, known: readonly string[]): Readonly<Record<string, unknown>> {
  if (value === null) return {}
  if (!isFields(value)) refuse(path, 'must be an object')
  const unknown = Object.keys(value).find((name) => !known.includes(name))
  if (unknown !== undefined) refuse(`${path}__${unknown}`, 'is not supported')
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null))
}

function readExcluded (value: unknown): string[] {
  if (value === null || isEmpty(value)) return []
  if (!Array.isArray(value) || !value.every((key) => typeof key === 'string' && key !== '')) refuse('excluded_variants', 'must be a list of the keys of variants')
  return value
}

/** The older form of an exposure: the filters of an insight, with one event. */
function readFilter (value: unknown): AnalysisSettings['exposure'] {
  if (isEmpty(value)) return null
  const path = 'custom_exposure_filter'
  if (!isFields(value)) refuse(path, 'must be an object with one event in events')
  const { events, actions, properties, ...rest } = value
  const [event, ...others] = Array.isArray(events) ? events : []
  if (!isEmpty(actions ?? []) || !isEmpty(properties ?? [])) refuse(path, 'must be one event in events, with its own properties: actions and global properties are not supported')
  if (others.length > 0 || event === undefined) refuse(path, 'must be an object with one event in events')
  const unknown = Object.keys(rest).find((name) => name !== 'insight' && name !== 'entity_type')
  if (unknown !== undefined) refuse(`${path}__${unknown}`, 'is not supported')
  const { id, properties: where } = fieldsOf(event)
  if (typeof id !== 'string' || id === '') refuse(`${path}__events__0__id`, 'must be the name of an event')
  return { event: id, where: readConditions(`parameters__${path}__events__0__properties`, where) }
}

function readConfig (value: unknown): AnalysisSettings['exposure'] {
  const path = 'exposure_criteria__exposure_config'
  const { kind = 'ExperimentEventExposureConfig', event, properties } = readObject(path, value, ['kind', 'event', 'properties'])
  if (kind !== 'ExperimentEventExposureConfig') refuse(`${path}__kind`, 'must be ExperimentEventExposureConfig: actions are not supported')
  if (typeof event !== 'string' || event === '') refuse(`${path}__event`, 'must be the name of an event')
  return { event, where: readConditions(`parameters__${path}__properties`, properties) }
}

function readLookback (value: unknown): number {
  const { enabled = false, lookback_days: days = DEFAULT_LOOKBACK_DAYS } = readObject('stats_config__cuped', value, ['enabled', 'lookback_days'])
  if (typeof enabled !== 'boolean') refuse('stats_config__cuped__enabled', 'must be true or false')
  if (typeof days !== 'number' || !Number.isInteger(days) || days < 1 || days > MAX_LOOKBACK_DAYS) refuse('stats_config__cuped__lookback_days', `must be a whole number from 1 to ${MAX_LOOKBACK_DAYS}`)
  return enabled ? days : 0
}

function isEmpty (value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.keys(value).length === 0)
}
