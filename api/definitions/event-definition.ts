import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { selectCreatedBy, userSummarySchema } from '../projects/users.ts'
import { noteChangesSchema, notesSchema, selectNotes, tagListSchema } from './definition-notes.ts'
import { count, object, optional, type Row, type Value } from '../http/json-schema.ts'

/** An event definition as answers show it (docs/reference/contract/service.md 2.5). */
export type EventDefinition = Row<typeof eventDefinitionSchema>

export type EventDefinitionChanges = Value<typeof eventDefinitionChangesSchema>

/** The columns of an `EventDefinition`, for a query on `event_definitions AS d`. */
export function selectEventDefinition (sql: Sql): Statement {
  return sql`d.id, d.name, d.volume_30_day, d.query_usage_30_day, d.created_at, d.last_seen_at, d.last_updated_at, d.tags,
    'false' AS is_action, NULL AS action_id, false AS is_calculating, d.last_calculated_at, d.post_to_slack,
    ${selectNotes(sql)},
    ${selectCreatedBy(sql, sql`d.created_by`)}`
}

/** @throws {HttpError} 404 when the project has no such definition. */
export async function findEventDefinition (sql: Sql, projectId: number, id: string): Promise<EventDefinition> {
  const [definition] = await sql<EventDefinition[]>`
    SELECT ${selectEventDefinition(sql)} FROM event_definitions d WHERE d.project_id = ${projectId} AND d.id = ${id} AND d.deleted_at IS NULL`
  return orNotFound(definition)
}

export const eventDefinitionSchema = object({
  id: { type: 'string', format: 'uuid' },
  name: { type: 'string' },
  volume_30_day: count('Events of that name in the last 30 days, updated continuously.'),
  query_usage_30_day: count('Value written by a client, else 0: queries are not counted.'),
  created_at: { type: 'string', format: 'date-time', description: 'When the event was first seen.' },
  last_seen_at: { type: ['string', 'null'], format: 'date-time', description: 'Timestamp of the latest event; its time of receipt if its clock was more than a minute ahead.' },
  last_updated_at: { type: 'string', format: 'date-time', description: 'Last change by a user.' },
  tags: { type: 'array', items: { type: 'string' } },
  is_action: { type: 'string', description: 'Always "false": there are no actions.' },
  action_id: { type: ['integer', 'null'], description: 'Always null: there are no actions.' },
  is_calculating: { type: 'boolean', description: 'Always false: nothing is calculated in the background.' },
  last_calculated_at: {
    type: ['string', 'null'], format: 'date-time', description: 'When volume_30_day was last computed.'
  },
  created_by: userSummarySchema,
  post_to_slack: { type: 'boolean', description: 'Whether its events are sent to the Slack targets of the project.' },
  ...notesSchema
}, { $id: 'EventDefinition' })

export const eventDefinitionChangesSchema = optional({
  name: {
    type: 'string', minLength: 1, pattern: '\\S', maxLength: 400,
    description: 'Renames the definition. Its values stay until an event of the new name arrives. An event of the old name creates a new definition.'
  },
  volume_30_day: {
    type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER,
    description: 'Overrides the computed value until the next event of that name, which restores the count of the last 30 days.'
  },
  query_usage_30_day: {
    type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER,
    description: 'Stored as written; queries are not counted.'
  },
  created_at: { type: 'string', format: 'date-time' },
  last_seen_at: {
    type: 'string', format: 'date-time',
    description: 'Overrides the computed value until the next event of that name.'
  },
  tags: tagListSchema,
  post_to_slack: { type: 'boolean' },
  ...noteChangesSchema
}, { additionalProperties: false })
