/**
 * What results and flags read from the `parameters` of an experiment. `excluded_variants`, `custom_exposure_filter`,
 * `exposure_criteria` and `stats_config` have the names and the meaning of PostHog; what is not obeyed is refused by
 * name. All other parameters are kept as written.
 */
import { invalidField } from '../../engines/errors.ts'
import { type PropertyCondition, readConditions } from '../../engines/operators/property-conditions.ts'
import { bodyOf, optional, partial } from '../http/json-schema.ts'
import { createReader } from '../http/request-validation.ts'
import { MAX_ID } from './experiment.ts'

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
  /** The smallest effect worth seeing, in percent of the baseline. */
  effect: number
  /** How many people the plan needs, for which the sequential method is tuned. Undefined leaves the default. */
  plannedSize: number | undefined
}

const text = { type: 'string', minLength: 1 } as const
const nothing = { type: ['array', 'object'], maxItems: 0, maxProperties: 0 } as const
const exposingEvent = partial({ id: text, type: { type: 'string', enum: ['events'] }, properties: {} }, 'id')

const readParameters = createReader(optional({
  minimum_detectable_effect: { type: 'number', exclusiveMinimum: 0 },
  recommended_sample_size: { type: 'number', minimum: 1 },
  rollout_percentage: { type: 'number', minimum: 0, maximum: 100 },
  aggregation_group_type_index: { type: 'integer', minimum: 0, maximum: MAX_ID },
  ensure_experience_continuity: { type: 'boolean' },
  excluded_variants: { type: 'array', items: text },
  // The older form of an exposure: the filters of an insight, with one event.
  custom_exposure_filter: bodyOf({
    events: { type: 'array', minItems: 1, maxItems: 1, items: exposingEvent }, actions: nothing, properties: nothing, insight: {}, entity_type: {}
  }),
  exposure_criteria: bodyOf({
    exposure_config: bodyOf({ kind: { type: 'string', enum: ['ExperimentEventExposureConfig'] }, event: text, properties: {} }, 'event'),
    multiple_variant_handling: { type: 'string', enum: ['exclude', 'first_seen'] },
    // There are no test accounts here.
    filterTestAccounts: { type: 'boolean', enum: [false] }
  }),
  stats_config: bodyOf({
    baseline_variant_key: text,
    cuped: bodyOf({ enabled: { type: 'boolean' }, lookback_days: { type: 'integer', minimum: 1, maximum: 90 } }),
    // Results have both.
    method: { type: 'string', enum: ['bayesian', 'frequentist'] },
    version: {}
  })
}))

const DEFAULT_LOOKBACK_DAYS = 14
export const DEFAULT_EFFECT = 5

/** @throws {HttpError} 400 naming the parameter that would be ignored, such as a number that is sent as text. */
export function readAnalysisSettings (parameters: Readonly<Record<string, unknown>>): AnalysisSettings {
  const read = readParameters('parameters', parameters)
  const { custom_exposure_filter: filter, stats_config: stats } = read
  const { exposure_config: config, multiple_variant_handling: handling } = read.exposure_criteria ?? {}
  const [event] = filter?.events ?? []
  if (config !== undefined && event !== undefined) throw invalidField('parameters__custom_exposure_filter', 'custom_exposure_filter cannot be combined with exposure_config.')
  const exposure = config ?? (event === undefined ? null : { event: event.id, properties: event.properties })
  const path = `parameters__${config === undefined ? 'custom_exposure_filter__events__0' : 'exposure_criteria__exposure_config'}__properties`
  return {
    excluded: read.excluded_variants ?? [],
    baseline: stats?.baseline_variant_key ?? null,
    exposure: exposure === null ? null : { event: exposure.event, where: readConditions(path, exposure.properties, ['event', 'cohort']) },
    isFirstSeen: handling === 'first_seen',
    lookbackDays: stats?.cuped?.enabled === true ? stats.cuped.lookback_days ?? DEFAULT_LOOKBACK_DAYS : 0,
    effect: read.minimum_detectable_effect ?? DEFAULT_EFFECT,
    plannedSize: read.recommended_sample_size
  }
}
