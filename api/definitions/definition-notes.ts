/** What people say about an event or a property, the same for both: description, owner, verified, hidden, tags. */
import { invalidField } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { selectUserSummary, userSummarySchema } from '../projects/users.ts'
import type { Value } from '../http/json-schema.ts'

const MAX_TAGS = 1000

/** The columns of the notes, for a query on a table of definitions `AS d`. */
export function selectNotes (sql: Sql): Statement {
  return sql`d.description, (SELECT ${selectUserSummary(sql)} FROM users u WHERE u.id = d.owner_id) AS owner, d.verified, d.hidden`
}

/** Their schema in answers, under the names of PostHog's API. */
export const notesSchema = {
  description: { type: 'string', description: 'Meaning of the event or property, written by its users.' },
  owner: { ...userSummarySchema, description: 'Owner; null if unset or deleted.' },
  verified: { type: 'boolean', description: 'Whether a user has verified this definition.' },
  hidden: { type: 'boolean', description: 'Omitted from lists with `exclude_hidden=true`; events are stored and counted as usual.' }
} as const

export const noteChangesSchema = {
  description: { type: 'string', maxLength: 3000 },
  owner: { type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description: 'Id of a user with access to the project; null: nobody.' },
  verified: { type: 'boolean' },
  hidden: { type: 'boolean' }
} as const

export type NoteChanges = Value<{ type: 'object', properties: typeof noteChangesSchema }>

export const tagListSchema = { type: 'array', maxItems: MAX_TAGS, items: { type: 'string', minLength: 1, maxLength: 255 } } as const

export const noteFiltersSchema = {
  exclude_hidden: { type: 'boolean', default: false, description: 'true: omit hidden definitions.' },
  verified: { type: 'boolean', description: 'true: only verified definitions; false: only unverified ones. Default: both.' }
} as const

export type NoteFilters = Partial<Value<{ type: 'object', properties: typeof noteFiltersSchema }>>

export function matchNotes (sql: Sql, { exclude_hidden: excludeHidden = false, verified }: NoteFilters): Statement {
  return sql`(NOT ${excludeHidden}::boolean OR NOT d.hidden) AND ${verified === undefined ? sql`true` : sql`d.verified = ${verified}`}`
}

/** Assignments of the columns that have a value, null included. */
export function assign (
  sql: Sql, columns: Record<string, string | number | boolean | Date | null | undefined>
): Statement[] {
  return Object.entries(columns).flatMap(([column, value]) =>
    value === undefined ? [] : [sql`${sql.unsafe(column)} = ${value}`])
}

/**
 * Answers show name and mail of an owner, so whoever may change definitions could read those of every user.
 *
 * @throws {HttpError} 400 for an owner who has neither access to the project nor a definition of it.
 */
export async function refuseUnknownOwner (sql: Sql, project: number, { owner }: NoteChanges): Promise<void> {
  if (owner === undefined || owner === null) return
  const [user] = await sql`
    SELECT 1 FROM users AS u WHERE id = ${owner} AND (
      CASE WHEN has_roles THEN disabled_at IS NULL AND EXISTS (
        SELECT FROM memberships WHERE user_id = u.id AND coalesce(project_id, ${project}) = ${project})
      ELSE EXISTS (
        SELECT FROM personal_api_keys WHERE user_id = u.id AND revoked_at IS NULL AND coalesce(expires_at > now(), true)
          AND coalesce(${project} = ANY (project_ids), true)) END
      OR EXISTS (SELECT FROM event_definitions WHERE project_id = ${project} AND owner_id = u.id)
      OR EXISTS (SELECT FROM property_definitions WHERE project_id = ${project} AND owner_id = u.id))`
  if (user === undefined) throw invalidField('owner', 'owner must be the id of a user with access to this project.')
}
