/** Event schemas as returned by the API, and their wording in the console. */
import type { Answer, Schema } from '../../api-types.ts'
import { isFields } from '../../../engines/fields.ts'
import type { DraftLanguage, Fields } from '../frame/json-text.ts'
import { formatCount } from '../format.ts'

export type EventSchema = Schema<'EventSchema'>
export type SchemaMode = EventSchema['mode']
export type SchemaVersion = Answer<'/api/projects/{project_id}/event_schemas/{id}/versions'>['results'][number]

/** Events of some days that ingest checked by a schema, and what became of those that did not meet it. */
export type SchemaCounts = Answer<'/api/projects/{project_id}/event_schemas/counts'>['results'][number]
export type Prediction = Answer<'/api/projects/{project_id}/event_schemas/{id}/check', 'post'>
export type InferredSchema = Answer<'/api/projects/{project_id}/event_schemas/infer', 'post'>

export const SCHEMA_LANGUAGE: DraftLanguage = {
  read: (schema) => isFields(schema) ? { fields: { schema } } : { error: { message: 'A schema is a JSON object.', attr: null } },
  contentOf: ({ schema }: { schema: Fields }) => schema,
  isOf: (attr) => attr?.split('__')[0] === 'schema',
  root: 'schema__'
}

export function requiredOf ({ required }: Readonly<Record<string, unknown>>): readonly unknown[] {
  return Array.isArray(required) ? required : []
}

/** What becomes of an event that does not meet the active version. */
export const MODES: Record<SchemaMode, string> = {
  observe: 'stored, marked and counted',
  quarantine: 'kept as a dead letter, to be replayed',
  reject: 'dropped and counted: it is lost'
}

/** What each keyword says of a value that does not meet it. */
export const KEYWORDS: Record<string, string> = {
  required: 'is missing', dependentRequired: 'is missing beside another', type: 'has another type', enum: 'is not an allowed value',
  const: 'is another value', minLength: 'is too short', maxLength: 'is too long', pattern: 'does not match the pattern',
  format: 'is not in the format', minimum: 'is too small', exclusiveMinimum: 'is too small', maximum: 'is too large',
  exclusiveMaximum: 'is too large', multipleOf: 'is not a multiple', minItems: 'has too few items', maxItems: 'has too many items',
  minProperties: 'has too few properties', maxProperties: 'has too many properties', additionalProperties: 'is not expected',
  anyOf: 'matches none of several schemas', oneOf: 'does not match exactly one of several schemas', not: 'matches a forbidden schema',
  false: 'is not allowed', limit: 'takes too long to check'
}

/** Where the dead letters of events that did not meet their schema are. */
export function linkToQuarantined (project: number, event: string): string {
  return `/projects/${project}/dead-letters?${new URLSearchParams({ at: 'schema', event }).toString()}`
}

/** The enforced version: `version 2, quarantine`. */
export function describeEnforced ({ mode, active_version: active }: Pick<EventSchema, 'mode' | 'active_version'>): string {
  return active === null ? 'not enforced' : `version ${active}, ${mode}`
}

/** A JSON pointer as people read it: `items › * › price`. */
export function describePath (pointer: string): string {
  if (pointer === '') return 'the properties as a whole'
  return pointer.slice(1).split('/').map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~')).join(' › ')
}

/** A share in percent. Rounding never turns a nonzero share into 0, or a partial one into 100. */
export function describeShare (part: number, whole: number): string {
  if (whole === 0) return '0 %'
  const share = part / whole * 100
  if (share > 0 && share < 0.1) return '<0.1 %'
  if (share < 100 && share > 99.9) return '>99.9 %'
  return `${share === Math.round(share) || share >= 99.95 ? Math.round(share) : share.toFixed(1)} %`
}

/** Events that did not meet a schema, of those that were checked by it: `3 of 120 (2.5 %)`. */
export function describeFailed ({ checked, kept, quarantined, rejected }: SchemaCounts): string {
  const failed = kept + quarantined + rejected
  return `${formatCount(failed)} of ${formatCount(checked)} (${describeShare(failed, checked)})`
}

/** The same with what became of them: `3 of 120 (2.5 %) events: 2 stored`. @param of  Undefined: none was checked. */
export function describeFailing (of: SchemaCounts | undefined): string {
  if (of === undefined) return 'no event was checked'
  const fates = [[of.kept, 'stored'], [of.quarantined, 'quarantined'], [of.rejected, 'dropped']] as const
  const known = fates.filter(([count]) => count !== 0).map(([count, fate]) => `${formatCount(count)} ${fate}`)
  return `${describeFailed(of)} events${known.length === 0 ? '' : `: ${known.join(', ')}`}`
}

export function describePrediction ({ events, failed, complete }: Prediction, mode: string): string {
  if (events === 0) return 'There are no stored events of these days.'
  const of = `${formatCount(events)} ${complete ? 'events' : 'newest events'}`
  if (failed === 0) return `All ${of} meet it.`
  const fate = new Map([['observe', 'stored and counted'], ['quarantine', 'quarantined'], ['reject', 'dropped']]).get(mode)
  return `${formatCount(failed)} of ${of} (${describeShare(failed, events)}) do not meet it, and would have been ${fate}.`
}
