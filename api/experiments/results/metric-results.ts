import { experimentProperties } from '../experiment.ts'
import { METRIC_KINDS } from '../../../engines/statistics/variant-statistics.ts'
import { GUARDRAIL_VERDICTS } from './judge-guardrail.ts'
import { ROLES } from './metric-schema.ts'
import { MISSING_INTERVALS } from './daily-series.ts'
import { metricWarningSchema } from './metric-warnings.ts'
import { array, nullableObject, object } from '../../http/json-schema.ts'

const nullableNumber = { type: ['number', 'null'] }
const interval = { type: ['array', 'null'], items: { type: ['number', 'null'] } }
const bounds = nullableObject({ lower: nullableNumber, upper: nullableNumber }, 'Null: nothing was cut.')
const verdict = { type: 'string', enum: GUARDRAIL_VERDICTS } as const
const open = { type: 'object', additionalProperties: true }

const dayVariantSchema = {
  ...open,
  required: ['key', 'exposed', 'measured', 'mean', 'probability', 'relative_lift', 'sequential_p_value', 'sequential_relative_interval', 'missing_interval'],
  properties: {
    key: { type: 'string' },
    exposed: { type: 'integer' },
    measured: { type: 'integer' },
    mean: nullableNumber,
    probability: { type: 'number' },
    credible_interval: interval,
    absolute_lift: nullableNumber,
    relative_lift: nullableNumber,
    sequential_p_value: { ...nullableNumber, description: 'Always valid: may be checked every day.' },
    sequential_absolute_interval: { ...interval, description: 'Interval of variant minus baseline; valid at any time, regardless of peeking.' },
    sequential_relative_interval: { ...interval, description: 'Interval of variant / baseline - 1; valid at any time.' },
    missing_interval: { type: ['string', 'null'], enum: [...MISSING_INTERVALS, null], description: 'Why there is no sequential_relative_interval.' }
  }
}

const dayVariants = { type: 'array', items: dayVariantSchema }

const variantSchema = {
  ...open,
  required: ['key', 'exposed', 'measured', 'sum', 'mean', 'probability', 'expected_loss', 'credible_interval', 'comparison'],
  properties: {
    key: { type: 'string' },
    exposed: { type: 'integer', description: 'People (or groups) who saw only this variant.' },
    measured: { type: 'integer', description: 'Of these, people with a value: fewer than exposed for a mean only.' },
    sum: { type: 'number', description: 'Sum of the values per person; people who converted, for a funnel.' },
    mean: { ...nullableNumber, description: 'Conversion rate, value per person, ratio or quantile; after CUPED.' },
    standard_error: nullableNumber,
    probability: { type: 'number', description: 'Probability of being the best of all variants.' },
    expected_loss: { ...nullableNumber, description: 'Average loss from choosing this variant if another is better.' },
    credible_interval: { ...interval, description: 'Contains the true value with 95 % probability.' },
    inner_credible_interval: { ...interval, description: 'Contains the true value with 50 % probability.' },
    steps: { type: 'array', items: { type: 'integer' }, description: 'People who reached each step of a funnel.' },
    comparison: {
      type: ['object', 'null'], additionalProperties: true,
      description: 'Against the baseline: lift, and the Bayesian (with inner intervals of 50 %), frequentist and sequential (always-valid) verdicts.'
    }
  }
}

/** One metric of an experiment, measured and judged. */
export const metricResultsSchema = {
  $id: 'MetricResults',
  ...open,
  required: [
    'insight', 'metric', 'kind', 'baseline', 'leader', 'significant', 'significance_code', 'expected_loss', 'p_value',
    'probability', 'credible_intervals', 'variants', 'exposures', 'sample_size', 'role', 'correction', 'adjustments', 'guardrail', 'warnings', 'series'
  ],
  properties: {
    insight: { type: 'string', enum: ['FUNNELS', 'TRENDS'] },
    metric: { ...open, description: 'The metric as interpreted.' },
    kind: { type: 'string', enum: METRIC_KINDS },
    baseline: { type: 'string', description: 'Key of the variant that the others are compared with.' },
    leader: { type: 'string', description: 'Key of the variant most likely to be best.' },
    significant: { type: 'boolean' },
    significance_code: {
      type: 'string',
      enum: ['significant', 'not_enough_exposure', 'low_win_probability', 'high_loss', 'high_p_value']
    },
    expected_loss: nullableNumber,
    p_value: nullableNumber,
    probability: { ...open, description: 'By variant: probability of being the best.' },
    credible_intervals: { ...open, description: 'By variant: interval of the true rate or mean.' },
    variants: { type: 'array', items: variantSchema },
    exposures: {
      ...open,
      required: ['total', 'multiple_variants', 'sample_ratio'],
      properties: {
        total: { type: 'integer' },
        multiple_variants: { type: 'integer', description: 'People who saw several variants.' },
        multiple_variant_handling: { type: 'string', enum: ['exclude', 'first_seen'], description: 'exclude: they are left out; first_seen: they count for their first variant.' },
        sample_ratio: {
          type: ['object', 'null'], additionalProperties: true,
          description: 'mismatch: true if the observed split differs from that of the flag; then no other number can be trusted.'
        }
      }
    },
    sample_size: {
      type: ['object', 'null'], additionalProperties: true,
      description: 'People and days needed to see minimum_detectable_effect (in percent), based on the baseline so far.'
    },
    role: { type: 'string', enum: ROLES, description: 'P-values of secondary metrics are exploratory: not corrected for multiple comparisons.' },
    correction: nullableObject(
      { method: { type: 'string', enum: ['holm'] }, metrics: { type: 'integer' }, comparisons: { type: 'integer' } },
      'Of primary metrics: adjusted p-values are corrected for all comparisons of all of them.'),
    adjustments: object({
      cuped: nullableObject({
        applied: { type: 'boolean' },
        reason: { type: ['string', 'null'], enum: ['quantile', 'too_little_history', null], description: 'Why it was not applied.' },
        lookback_days: { type: 'number' },
        share_with_history: { ...nullableNumber, description: 'Share of people with events of the metric before their exposure.' },
        variance_reduction: nullableNumber
      }, 'Null when it is off.'),
      winsorized: nullableObject({ value: bounds, denominator: bounds }, 'Bounds to which values were cut.'),
      quantile: nullableNumber
    }, { description: 'Adjustments made to the values before the comparison.' }),
    guardrail: nullableObject({
      margin: { type: 'number', description: 'Tolerated loss, in percent of the baseline.' },
      goal: { type: 'string', enum: ['increase', 'decrease'] },
      variants: array(object({ key: { type: 'string' }, at_the_end: verdict, at_any_time: verdict }))
    }, 'Null unless the role is guardrail. holds: the whole interval of the lift is better than the margin; harmed: all of it is worse.'),
    warnings: {
      type: 'array', items: metricWarningSchema,
      description: 'Why nobody has a value: events of the metric that were never sent, and properties without a number in any event.'
    },
    series: {
      type: 'array', maxItems: 60,
      description: 'Results as of the end of each day, for plotting; beyond 60 days, every n-th day, counted back from the last.',
      items: { ...open, required: ['day', 'variants'], properties: { day: { type: 'string', format: 'date' }, variants: dayVariants } }
    }
  }
}

const refreshed = {
  last_refresh: { type: 'string', format: 'date-time', description: 'When it was computed.' },
  is_cached: { type: 'boolean' },
  complete_through: {
    type: ['string', 'null'], format: 'date-time',
    description: 'Every acknowledged event received before this time is counted; null while unknown.'
  }
}

const measured = object({
  feature_flag_key: { type: 'string' },
  feature_flag_variants: { type: 'array', items: open, description: 'Variants with the shares by which people were assigned.' },
  changes: array(object({
    at: { type: 'string', format: 'date-time' },
    fields: { type: 'array', items: { type: 'string', enum: ['feature_flag', 'parameters', 'filters', 'secondary_metrics'] } }
  }), { description: 'Changes to what is measured, newest first, at most 20; the last is the launch.' })
}, { description: 'Settings behind the results: the flag as of the end of the experiment or, while it runs, as it is.' })

function withExperiment (properties: object): object {
  const all = { ...experimentProperties, ...properties, measured }
  return object(all)
}

export const resultsSchema = withExperiment({ ...refreshed, result: { $ref: 'MetricResults#' } })

const values = { ...open, description: 'Rate or value per person, by variant.' }

export const secondaryResultsSchema = withExperiment({
  ...refreshed,
  result: { oneOf: [values, { type: 'array', items: values }], description: 'Results of the metric given by `id`, or of all metrics.' },
  analysis: {
    oneOf: [{ $ref: 'MetricResults#' }, { type: 'array', items: { $ref: 'MetricResults#' } }],
    description: 'The same results, with all fields.'
  }
})
