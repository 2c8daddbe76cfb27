import { invalidField } from '../../engines/errors.ts'
import { bodyOf, type Value } from '../http/json-schema.ts'

export type ExperimentFields = Value<typeof experimentChangesSchema>

export type NewExperiment = ExperimentFields & { name: string, feature_flag_key: string }

const anyObject = { additionalProperties: true }

const writable = {
  name: { type: 'string', minLength: 1, pattern: '\\S', maxLength: 400 },
  description: { type: ['string', 'null'], maxLength: 3000 },
  start_date: {
    type: ['string', 'null'], format: 'date-time',
    description: 'Setting it on a draft launches the experiment and activates the flag. null returns the experiment to draft.'
  },
  end_date: { type: ['string', 'null'], format: 'date-time', description: 'Ends the experiment; the flag does not change.' },
  feature_flag_key: {
    type: 'string', minLength: 1, maxLength: 400,
    description: 'Key of a flag with at least two variants, one of them "control"; an unknown key creates a new flag.'
  },
  parameters: {
    type: ['object', 'null'], ...anyObject,
    description: 'feature_flag_variants, rollout_percentage and aggregation_group_type_index apply to a new flag; ' +
      'minimum_detectable_effect, recommended_sample_size, excluded_variants, custom_exposure_filter, exposure_criteria ' +
      'and stats_config (cuped, baseline_variant_key) are used by results.'
  },
  secondary_metrics: { type: ['object', 'array', 'null'], ...anyObject, items: {}, description: 'Secondary metrics.' },
  filters: { type: 'object', ...anyObject, description: 'The primary metric; see docs/change/experiments.md for its forms.' },
  archived: { type: 'boolean' }
} as const

export const newExperimentSchema = bodyOf(writable, 'name', 'feature_flag_key')

/** Unknown fields are refused by `refuseUnknownFields`, all of them together in the words that clients know. */
export const experimentChangesSchema = { type: 'object', additionalProperties: true, properties: writable } as const

const WRITABLE_FIELDS: readonly string[] = Object.keys(writable)

/** @throws {HttpError} naming all fields of a PATCH that cannot be written. */
export function refuseUnknownFields (body: object): void {
  const unknown = Object.keys(body).filter((field) => !WRITABLE_FIELDS.includes(field))
  if (unknown.length === 0) return
  throw invalidField(unknown[0] ?? '', `Can't update keys: ${unknown.sort().join(', ')} on Experiment`, 'unknown_field')
}

/** @throws {HttpError} when the metric's filters hold properties for all events at once. */
export function refuseGlobalProperties (filters: Record<string, unknown> | undefined): void {
  const properties = filters?.['properties']
  const empty = properties === undefined || properties === null || Object.keys(properties).length === 0
  if (!empty) throw invalidField('filters', 'Experiments do not support global filter properties')
}

/** @throws {HttpError} when the end is not after the start. */
export function refuseEndBeforeStart (start: Date | null, end: Date | null): void {
  if (start !== null && end !== null && end <= start) throw invalidField('end_date', 'End date must be after start date')
}
