import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { noteChangesSchema, notesSchema, selectNotes, tagListSchema } from './definition-notes.ts'
import { count, object, optional, type Row, type Value } from '../http/json-schema.ts'

export const PROPERTY_TYPES = ['DateTime', 'String', 'Numeric', 'Boolean'] as const

/** A property definition as answers show it (docs/reference/contract/service.md 2.4). */
export type PropertyDefinition = Row<typeof propertyDefinitionSchema>

export type PropertyDefinitionChanges = Value<typeof propertyDefinitionChangesSchema>

/**
 * The columns of a `PropertyDefinition`, for a query on `property_definitions AS d`.
 *
 * `is_numerical` is not a column: it is true exactly when the type is Numeric, so the two never contradict each other.
 *
 * @param isSeen  Boolean: whether the property was seen on the events of the request; null when it names none.
 */
export function selectPropertyDefinition (sql: Sql, isSeen: Statement): Statement {
  return sql`d.id, d.name, d.property_type IS NOT DISTINCT FROM 'Numeric' AS is_numerical, d.query_usage_30_day,
    d.property_type, d.tags, (${isSeen})::text AS is_seen_on_filtered_events,
    d.created_at, d.last_seen_at, ${selectNotes(sql)}`
}

/** @throws {HttpError} 404 when the project has no such definition. */
export async function findPropertyDefinition (sql: Sql, projectId: number, id: string): Promise<PropertyDefinition> {
  const [definition] = await sql<PropertyDefinition[]>`
    SELECT ${selectPropertyDefinition(sql, sql`NULL::boolean`)}
    FROM property_definitions d WHERE d.project_id = ${projectId} AND d.id = ${id} AND d.deleted_at IS NULL`
  return orNotFound(definition)
}

export const propertyDefinitionSchema = object({
  id: { type: 'string', format: 'uuid' },
  name: { type: 'string' },
  is_numerical: { type: 'boolean', description: 'True if property_type is Numeric.' },
  query_usage_30_day: count('Value written by a client, else 0: queries are not counted.'),
  property_type: {
    type: ['string', 'null'], enum: [...PROPERTY_TYPES, null],
    description: 'Inferred from the values, or set by a user; null while only null, arrays or objects were seen.'
  },
  tags: { type: 'array', items: { type: 'string' } },
  is_seen_on_filtered_events: {
    type: ['string', 'null'], enum: ['true', 'false', null],
    description: 'Whether the property was seen on any event in event_names; null without event_names.'
  },
  created_at: { type: 'string', format: 'date-time', description: 'When an event first carried it.' },
  last_seen_at: { type: ['string', 'null'], format: 'date-time', description: 'Time of the latest event that carried it.' },
  ...notesSchema
}, { $id: 'PropertyDefinition' })

export const propertyDefinitionChangesSchema = optional({
  name: {
    type: 'string', minLength: 1, pattern: '\\S', maxLength: 400,
    description: 'Renames the definition. Its type stays until an event has a property of the new name. An event with the old name creates a new definition.'
  },
  is_numerical: { type: 'boolean', description: 'true sets property_type to Numeric; false changes Numeric to String and leaves other types unchanged.' },
  query_usage_30_day: {
    type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER,
    description: 'Stored as written; queries are not counted.'
  },
  property_type: {
    type: ['string', 'null'], enum: [...PROPERTY_TYPES, null],
    description: 'A type set here overrides inference; null restores inference.'
  },
  tags: tagListSchema,
  ...noteChangesSchema
}, { additionalProperties: false })
