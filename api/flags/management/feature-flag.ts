import type { Sql, SqlTemplates, Statement } from '../../../platform/postgres/connect-postgres.ts'
import type { FlagDefinition } from '../../../engines/flags/flag-definition.ts'
import { originSchemas, selectCreatedBy } from '../../projects/users.ts'
import { object, type Row, schemaOf, writableBody } from '../../http/json-schema.ts'

export type FeatureFlag = Row<{ type: 'object', required: string[], properties: Omit<typeof writable & typeof readOnly, 'filters'> }> &
  { filters: unknown }

export function selectFeatureFlag (sql: Sql): Statement {
  return sql`f.id, f.project_id AS team_id, f.name, f.key, f.filters, f.deleted, f.active,
    f.ensure_experience_continuity, f.evaluation_runtime, f.bucketing_identifier, f.version,
    ${selectCreatedBy(sql, sql`f.created_by`)}, f.created_at, f.updated_at`
}

const writable = {
  name: { type: 'string', maxLength: 10_000, description: 'Purpose of the flag.' },
  key: { type: 'string', description: 'Name of the flag in SDKs: letters, digits, hyphens and underscores; unique in the project.' },
  filters: {
    type: 'object',
    additionalProperties: true,
    description: 'Who gets which value: groups (condition sets; the first that matches decides) with properties, ' +
      'rollout_percentage and variant; multivariate (variants, whose shares sum to 100, or to less with ' +
      'rest_without_variant), payloads, aggregation_group_type_index, holdout, early_exit, feature_enrollment.'
  },
  deleted: { type: 'boolean', description: 'true deletes the flag; its key may be used again.' },
  active: { type: 'boolean', description: 'An inactive flag is false for everyone.' },
  ensure_experience_continuity: { type: 'boolean', description: 'Users keep their value when they are identified.' },
  evaluation_runtime: { type: 'string', enum: ['all', 'server', 'client'], description: 'SDKs that get the flag: server, client (browsers and apps), or all.' },
  bucketing_identifier: {
    type: 'string', enum: ['distinct_id', 'device_id'], description: 'Id that is hashed for rollouts and variants.'
  }
} as const

const readOnly = {
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  version: { type: 'integer', description: 'Increases by one with every change.' },
  ...originSchemas
} as const

export type FeatureFlagFields = Partial<Pick<FeatureFlag, keyof typeof writable>>

export type NewFeatureFlag = FeatureFlagFields & { key: string }

/** A change of a flag, and what it is based on. */
export interface FeatureFlagChange extends FeatureFlagFields {
  version?: number
  original_flag?: Record<string, unknown>
}

const { id, team_id: teamId, ...changed } = readOnly

export const featureFlagSchema = object({ id, team_id: teamId, ...writable, ...changed }, { $id: 'FeatureFlag' })

const body = writableBody(writable, readOnly)

export const newFeatureFlagSchema = { ...body, required: ['key'] }

export const featureFlagFieldsSchema = body

/** What PostHog's clients send with a change, so that nobody's work is lost. */
export const featureFlagChangesSchema = schemaOf<FeatureFlagChange>({
  ...body,
  properties: {
    ...body.properties,
    version: { type: 'integer', description: 'Version that the change is based on. If the flag has a newer one, the answer is 409 `conflict` and nothing changes.' },
    original_flag: {
      type: 'object', additionalProperties: true,
      description: 'With an outdated version: the flag as of that version. Fields that are unchanged from it are ' +
        'ignored, and 409 is returned only for a field that another user has changed as well.'
    }
  }
})

export const WRITABLE_FIELDS = Object.keys(writable) as Array<keyof typeof writable>

/** What a flag is whose other fields are not given; `id` 0 is that of no stored flag. */
export const NEW_FLAG: FlagDefinition = {
  id: 0, key: '', name: '', filters: { groups: [] }, active: true, ensure_experience_continuity: false, version: 1,
  evaluation_runtime: 'all', bucketing_identifier: 'distinct_id', has_experiment: false
}

export function toColumns (sql: SqlTemplates, fields: FeatureFlagFields): Record<string, unknown> {
  const given = WRITABLE_FIELDS.filter((name) => fields[name] !== undefined)
  return Object.fromEntries(given.map((name) => [name, name === 'filters' ? sql.json(fields.filters) : fields[name]]))
}
