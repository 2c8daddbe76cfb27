/** What people say about an event or a property, the same for both: description, owner, verified, hidden, tags. */
import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import type { Scope } from '../../schema/scopes.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { selectUserSummary, userSummarySchema } from '../projects/users.ts'
import { array, object, type Value } from '../http/json-schema.ts'

/** Tags of a definition. */
const MAX_TAGS = 1000

/** Definitions of one request that changes many. */
const MAX_ROWS = 500

/** The columns of the notes, for a query on a table of definitions `AS d`. */
export function selectNotes (sql: Sql): Statement {
  return sql`d.description, (SELECT ${selectUserSummary(sql)} FROM users u WHERE u.id = d.owner_id) AS owner, d.verified, d.hidden`
}

/** Their schema in answers, under the names of PostHog's API. */
export const notesSchema = {
  description: { type: 'string', description: 'What it means, in words of the people who send it.' },
  owner: { ...userSummarySchema, description: 'Whom to ask about it; null when nobody is named or the user is gone.' },
  verified: { type: 'boolean', description: 'Whether somebody has said that it is right.' },
  hidden: { type: 'boolean', description: 'Left out of lists that ask for it; its events are stored and counted as always.' }
} as const

/** Their schema in bodies. */
export const noteChangesSchema = {
  description: { type: 'string', maxLength: 3000 },
  owner: { type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description: 'Id of a user; null: nobody.' },
  verified: { type: 'boolean' },
  hidden: { type: 'boolean' }
} as const

/** What PATCH may change of them. */
export type NoteChanges = Value<{ type: 'object', properties: typeof noteChangesSchema }>

export const tagListSchema = { type: 'array', maxItems: MAX_TAGS, items: { type: 'string', minLength: 1, maxLength: 255 } } as const

/** Filters of a list by its notes. */
export const noteFiltersSchema = {
  exclude_hidden: { type: 'boolean', default: false, description: 'true: without hidden ones.' },
  verified: { type: 'boolean', description: 'true: only verified ones; false: only the others. Default: both.' }
} as const

export type NoteFilters = Partial<Value<{ type: 'object', properties: typeof noteFiltersSchema }>>

/** The condition of the filters, for a table of definitions `AS d`. */
export function matchNotes (sql: Sql, { exclude_hidden: excludeHidden = false, verified }: NoteFilters): Statement {
  return sql`(NOT ${excludeHidden}::boolean OR NOT d.hidden) AND ${verified === undefined ? sql`true` : sql`d.verified = ${verified}`}`
}

/** Assignments of an UPDATE. */
export function assignNotes (sql: Sql, { description, owner, verified, hidden }: NoteChanges): Statement[] {
  return [
    ...(description === undefined ? [] : [sql`description = ${description}`]),
    ...(owner === undefined ? [] : [sql`owner_id = ${owner}`]),
    ...(verified === undefined ? [] : [sql`verified = ${verified}`]),
    ...(hidden === undefined ? [] : [sql`hidden = ${hidden}`])
  ]
}

/** @throws {HttpError} 400 for an owner who is no user. */
export async function refuseUnknownOwner (sql: Sql, { owner }: NoteChanges): Promise<void> {
  if (owner === undefined || owner === null) return
  const [user] = await sql`SELECT 1 FROM users WHERE id = ${owner}`
  if (user !== undefined) return
  throw new HttpError(400, 'validation_error', 'invalid_input', 'owner must be the id of a user.', { attr: 'owner' })
}

/** Body of a change of many definitions. */
const bulkSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['ids'],
  properties: {
    ids: { type: 'array', minItems: 1, maxItems: MAX_ROWS, items: { type: 'string', format: 'uuid' } },
    ...noteChangesSchema,
    add_tags: { ...tagListSchema, description: 'Tags that each gets, beside those that it has.' },
    remove_tags: { ...tagListSchema, description: 'Tags that each loses; before others are added.' }
  }
} as const

const bulkAnswerSchema = object({
  changed: { type: 'array', items: { type: 'string', format: 'uuid' }, description: 'Definitions that are now as asked for.' },
  errors: array(object({
    id: { type: 'string', format: 'uuid' },
    code: { type: 'string', enum: ['not_found', 'too_many_tags'] },
    detail: { type: 'string' }
  }), { description: 'Those that were not changed, in the order of the request.' })
})

/** `POST .../bulk_update`: the same change for many definitions of one kind, in one statement. */
export async function bulkNoteRoutes (
  app: FastifyInstance,
  { sql, ...kind }: { sql: Sql, scope: Scope, tag: string, table: 'event_definitions' | 'property_definitions' }
): Promise<void> {
  app.post<{ Body: Value<typeof bulkSchema> }>('/bulk_update', {
    config: { scope: kind.scope },
    schema: {
      tags: [kind.tag], summary: `Update many ${kind.tag}`, body: bulkSchema, response: { 200: bulkAnswerSchema },
      description: 'Each definition succeeds or fails on its own; the answer lists the errors.'
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    return await changeMany(sql, { projectId, table: kind.table }, request.body)
  })
}

async function changeMany (
  sql: Sql,
  { projectId, table }: { projectId: number, table: 'event_definitions' | 'property_definitions' },
  change: Value<typeof bulkSchema>
): Promise<Value<typeof bulkAnswerSchema>> {
  const { add_tags: added = [], remove_tags: removed = [] } = change
  await refuseUnknownOwner(sql, change)
  const from = table === 'event_definitions' ? sql`event_definitions` : sql`property_definitions`
  const ids = [...new Set(change.ids.map((id) => id.toLowerCase()))]
  // The tags that stay, in their order, and the new ones after them.
  const tags = sql`ARRAY(
    SELECT tag FROM unnest(d.tags || ${added}::text[]) WITH ORDINALITY AS each (tag, at)
    WHERE tag <> ALL(${removed}::text[]) OR tag = ANY(${added}::text[]) GROUP BY tag ORDER BY min(at))`
  const assignments = [
    ...assignNotes(sql, change),
    ...(added.length + removed.length === 0 ? [] : [sql`tags = ${tags}`]),
    ...(table === 'event_definitions' ? [sql`last_updated_at = now()`] : [])
  ]
  const rows = await sql.begin(async (transaction) => {
    const inside = transaction as unknown as Sql
    // In the order in which the roll-up locks, so that the two cannot deadlock.
    const found = await inside<{ id: string, fits: boolean }[]>`
      SELECT d.id, cardinality(${tags}) <= ${MAX_TAGS} AS fits FROM ${from} AS d
      WHERE d.project_id = ${projectId} AND d.id = ANY(${ids}::uuid[]) AND d.deleted_at IS NULL
      ORDER BY d.name COLLATE "C" FOR UPDATE OF d`
    const fitting = found.filter(({ fits }) => fits).map(({ id }) => id)
    if (fitting.length > 0 && assignments.length > 0) {
      const set = assignments.reduce((all, assignment) => inside`${all}, ${assignment}`)
      await inside`UPDATE ${from} AS d SET ${set} WHERE d.id = ANY(${fitting}::uuid[])`
    }
    return found
  }) as { id: string, fits: boolean }[]
  const fitsById = new Map(rows.map(({ id, fits }) => [id, fits]))
  return {
    changed: ids.filter((id) => fitsById.get(id) === true),
    errors: ids.filter((id) => fitsById.get(id) !== true).map((id) => fitsById.has(id)
      ? { id, code: 'too_many_tags', detail: `It would have more than ${MAX_TAGS} tags.` }
      : { id, code: 'not_found', detail: 'There is no such definition.' })
  }
}
