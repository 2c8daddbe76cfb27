import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { hashPersonalKey, maskKey, mintKey } from '../../schema/key-text.ts'
import { HttpError } from '../../engines/errors.ts'
import { selectLimits } from '../../platform/directory/read-keys.ts'
import { type Limited, limitRights, maySql } from '../../schema/roles.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { notFound } from '../http/answer-errors.ts'
import { type Row, time } from '../http/json-schema.ts'
import { selectCreatedBy, userSummarySchema } from '../projects/users.ts'
import type { Tile } from './tile-answers.ts'

const MAX_LINKS = 20

export const linkFields = {
  id: { type: 'integer' },
  mask_value: { type: 'string', description: 'The first and last characters of its key.' },
  created_by: userSummarySchema,
  created_at: time,
  expires_at: { ...time, type: ['string', 'null'], description: 'Null: valid until deleted.' }
} as const

export type BoardLink = Row<{ type: 'object', required: string[], properties: typeof linkFields }>

interface BoardKey { projectId: number, boardId: number }

/** The links of a board that have not expired, the newest first. */
export async function listLinks (sql: SqlTemplates, { projectId, boardId }: BoardKey): Promise<BoardLink[]> {
  return await sql<BoardLink[]>`
    SELECT l.id, l.mask_value, ${selectCreatedBy(sql, sql`l.created_by`)}, l.created_at, l.expires_at
    FROM board_links l JOIN boards b ON b.id = l.board_id
    WHERE b.project_id = ${projectId} AND b.id = ${boardId} AND (l.expires_at IS NULL OR l.expires_at > now()) ORDER BY l.id DESC`
}

/**
 * Makes a link. It shows saved queries that are on the board now, unless they are changed: nobody can show by it what
 * the key that made it may not ask.
 *
 * @param made.makers  Users whose rights limit that key, and with it the link.
 * @param made.mayShowSql  Whether that key is for all projects.
 * @returns the link with its key, which is shown only once.
 * @throws {HttpError} 404 when the project has no such board.
 */
export async function createLink (
  sql: SqlTemplates, { projectId, boardId }: BoardKey,
  made: { userId: number, makers: readonly number[], mayShowSql: boolean, expiresAt: Date | null }
): Promise<BoardLink & { value: string }> {
  const key = mintKey('phl_')
  await sql`DELETE FROM board_links WHERE board_id = ${boardId} AND expires_at <= now()`
  const [created] = await sql<{ id: number, links: number }[]>`
    INSERT INTO board_links (board_id, key_hash, mask_value, saved_queries, created_by, made_by_users, expires_at)
    SELECT b.id, ${hashPersonalKey(key)}, ${maskKey(key)},
      CASE WHEN ${made.mayShowSql}::boolean THEN ARRAY(
        SELECT (tile ->> 'id')::integer FROM jsonb_array_elements(b.tiles) AS tile WHERE tile ->> 'kind' = 'saved_query') ELSE '{}' END,
      ${made.userId}, ${[...made.makers]}::integer[], ${made.expiresAt}
    FROM boards b WHERE b.project_id = ${projectId} AND b.id = ${boardId}
      AND (SELECT count(*) FROM board_links WHERE board_id = b.id) < ${MAX_LINKS} RETURNING id`
  const links = await listLinks(sql, { projectId, boardId })
  const link = links.find(({ id }) => id === created?.id)
  if (link !== undefined) return { ...link, value: key }
  if (links.length < MAX_LINKS) throw notFound()
  throw new HttpError(400, 'validation_error', 'invalid_input', `A board can have at most ${MAX_LINKS} links: delete one first.`)
}

/** @throws {HttpError} 404 when the board has no such link. */
export async function deleteLink (sql: Sql, { projectId, boardId }: BoardKey, id: number): Promise<void> {
  const deleted = await sql`
    DELETE FROM board_links l USING boards b
    WHERE l.id = ${id} AND b.id = l.board_id AND b.id = ${boardId} AND b.project_id = ${projectId} RETURNING l.id`
  if (deleted.length === 0) throw notFound()
}

export interface SharedBoard {
  linkId: number
  madeAt: Date
  projectId: number
  timezone: string
  name: string
  description: string
  tiles: Tile[]
}

/** @returns null for a key of no link, and of one that has ended: also when one of its makers may no longer make it. */
export async function findSharedBoard (sql: Sql, keyHash: string): Promise<SharedBoard | null> {
  const [found] = await sql<(SharedBoard & Pick<Limited, 'limits'>)[]>`
    SELECT l.id AS "linkId", l.created_at AS "madeAt", b.project_id AS "projectId", p.timezone, b.name, b.description,
      (SELECT coalesce(jsonb_agg(tile ORDER BY place), '[]') FROM jsonb_array_elements(b.tiles) WITH ORDINALITY AS t (tile, place)
       WHERE tile ->> 'kind' = 'question' OR EXISTS (SELECT FROM saved_queries q
         WHERE q.id = (tile ->> 'id')::integer AND q.id = ANY(l.saved_queries) AND q.project_id = b.project_id AND q.updated_at <= l.created_at)) AS tiles,
      ${selectLimits(sql, sql`l.made_by_users || l.created_by`)}
    FROM board_links l JOIN boards b ON b.id = l.board_id JOIN projects p ON p.id = b.project_id
    WHERE l.key_hash = ${keyHash} AND (l.expires_at IS NULL OR l.expires_at > now())`
  if (found === undefined) return null
  const { limits, tiles, ...board } = found
  const maker = { scopes: ['*'], projectIds: null, limits }
  if (!allowsScope(limitRights(maker, board.projectId).scopes, 'query:write')) return null
  return { ...board, tiles: maySql(maker) ? tiles : tiles.filter(({ kind }) => kind === 'question') }
}
