import type { FastifyInstance, FastifyRequest } from 'fastify'
import { HttpError, invalidField } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { hashPersonalKey } from '../../schema/key-text.ts'
import { notFound, orNotFound } from '../http/answer-errors.ts'
import { array, integer, nullableObject, object, optional, string } from '../http/json-schema.ts'
import { type Access, limitRate, requireSql } from '../http/personal-key-access.ts'
import { idParams, parseIsoDateTime } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { recordRequests } from '../people/record.ts'
import { changeKeys, readMaker } from '../projects/key-rights.ts'
import { type DocumentKind, documentRoutes, findDocument } from '../queries/named-documents.ts'
import { logCommentOf } from '../queries/sql-routes.ts'
import { answerSchema, definitionSchema } from '../questions/question-schemas.ts'
import { createLink, deleteLink, findSharedBoard, linkFields, listLinks, type SharedBoard } from './board-links.ts'
import { reportPictureRoutes } from './report-pictures.ts'
import type { Tile, TileAsked } from './tile-answers.ts'

interface BoardDeps {
  sql: Sql
  publicUrl: string
  answerTile: (asked: TileAsked) => Promise<object>
}

const tileFields = {
  kind: { type: 'string', enum: ['question', 'saved_query'] }, id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 }
} as const
const tiles = {
  ...array(object(tileFields, { additionalProperties: false })), maxItems: 30, uniqueItems: true,
  description: 'Tiles in order. A tile whose question was deleted has no result.'
} as const
const fields = { tiles } as const

const BOARDS: DocumentKind<typeof fields> = {
  table: 'boards', id: 'Board', noun: 'board', plural: 'boards', fields, defaults: { tiles: [] },
  async check ({ tiles }, { sql, projectId, id = null }) {
    if (!Array.isArray(tiles)) return
    // What stands on the board already may have been deleted meanwhile.
    const known = await sql<Tile[]>`
      SELECT 'question' AS kind, id FROM questions WHERE project_id = ${projectId}
      UNION ALL SELECT 'saved_query', id FROM saved_queries WHERE project_id = ${projectId}
      UNION ALL SELECT tile->>'kind', (tile->>'id')::integer FROM boards, jsonb_array_elements(tiles) AS tile
        WHERE project_id = ${projectId} AND boards.id = ${id}::integer`
    const isKnown = ({ kind, id }: Tile): boolean => known.some((each) => each.kind === kind && each.id === id)
    const unknown = tiles.findIndex((tile: Tile) => !isKnown(tile))
    if (unknown === -1) return
    const { kind, id: missing }: Tile = tiles[unknown]
    throw invalidField(`tiles__${unknown}__id`, `The project has no ${kind.replace('_', ' ')} ${missing}.`)
  }
}

const { required, properties: { answer, ...facts } } = answerSchema

const tileAnswerSchema = object({
  name: string, description: string,
  answered_at: { ...string, format: 'date-time' },
  is_cached: { type: 'boolean', description: 'true: a cached answer, at most ten minutes old; the watermark is at most a minute past its complete_through.' },
  question: { ...nullableObject({ definition: definitionSchema, ...facts, answer }, 'For a question; else null.'), required: ['definition', ...required] },
  result: nullableObject({
    chart: { type: ['object', 'null'], additionalProperties: true },
    complete_through: { type: ['string', 'null'], format: 'date-time' },
    columns: { ...array({ type: 'array', items: string }), description: 'Names, then types, of the columns.' },
    rows: { ...array({ type: 'array', items: {} }), description: 'At most 1,000; 64-bit integers, decimals and NaN are strings.' },
    cut: { type: ['string', 'null'], enum: ['rows', 'bytes', null], description: 'Limit that truncated the result; null if it is complete.' },
    read_rows: integer, ms: { type: 'number' }
  }, 'Of a saved query.')
}, { $id: 'TileAnswer' })

const ofTile = { tile_kind: tileFields.kind, tile_id: tileFields.id } as const
const link = object(linkFields)

/** Boards: questions and saved queries side by side, and the links by which they are shown to people without a key. */
export async function boardRoutes (app: FastifyInstance, deps: BoardDeps): Promise<void> {
  const { sql, answerTile } = deps
  const routes = routesOf(app, { tag: 'boards', object: 'query' })
  app.addSchema(tileAnswerSchema)
  await documentRoutes(app, deps, BOARDS)

  routes.get('/:id/answers/:tile_kind/:tile_id', {
    summary: 'Answer the tiles of a board', config: { recorded: 'sql' },
    description: 'Answers are cached while the watermark is at most a minute past complete_through. Saved queries require a key for all projects.',
    params: optional({ ...idParams.properties, ...ofTile }),
    query: optional({ refresh: { type: 'boolean', description: 'Recompute the answers instead of using cached ones.' } }),
    answer: { $ref: 'TileAnswer#' }
  }, async ({ params, query: { refresh = false } }, access) => {
    const { projectId } = access
    const { tiles } = await findDocument(sql, BOARDS, { projectId, id: params.id })
    const tile = tileOf(params, tiles)
    if (tile.kind === 'saved_query') requireSql(access)
    return await answerTile({ projectId, tile, logComment: logCommentOf(access), refresh })
  })

  routes.get('/:id/links', {
    summary: 'List the links of a board', params: idParams, answer: object({ results: array(link) })
  }, async ({ params: { id } }, { projectId }) => ({ results: await listLinks(sql, { projectId, boardId: id }) }))

  routes.create('/:id/links', {
    summary: 'Create a link to a board', params: idParams,
    description: 'Anyone with the key can view this board only. A saved query is shown only if it is on the board when the link is created, has not been changed since, and your key covers all projects.',
    body: { type: ['object', 'null'], additionalProperties: false, properties: { expires_at: linkFields.expires_at } },
    answer: object({ ...linkFields, value: { ...string, description: 'The link key. Shown only once.' } })
  }, async ({ params: { id }, body }, access) => {
    const expiresAt = parseIsoDateTime(body?.expires_at) ?? null
    if (expiresAt !== null && expiresAt.getTime() <= Date.now()) {
      throw invalidField('expires_at', 'It must be in the future.')
    }
    const { projectId, userId, maySql } = access
    // Disabling a user deletes links, and must find this one.
    return await changeKeys(sql, async (tx) => {
      const { users: makers } = await readMaker(tx, access)
      return await createLink(tx, { projectId, boardId: id }, { userId, makers, mayShowSql: maySql, expiresAt })
    })
  })

  routes.delete('/:id/links/:link_id', {
    summary: 'Delete a link to a board', params: optional({ ...idParams.properties, link_id: idParams.properties.id })
  }, async ({ params }, { projectId }) => { await deleteLink(sql, { projectId, boardId: params.id }, params.link_id) })
}

function tileOf (params: { tile_kind: string, tile_id: number }, tiles: readonly Tile[]): Tile {
  return orNotFound(tiles.find(({ kind, id }) => kind === params.tile_kind && id === params.tile_id))
}

declare module 'fastify' {
  interface FastifyRequest {
    sharedBoard: SharedBoard | null
  }
}

interface SharedDeps extends BoardDeps { managementRateLimit: number }

/** What people without a personal key see: pictures that were sent, and the board of a link. */
export async function sharedBoardRoutes (app: FastifyInstance, deps: SharedDeps): Promise<void> {
  await app.register(reportPictureRoutes, { ...deps, prefix: '/pictures' })
  await app.register(linkedBoardRoutes, { ...deps, prefix: '' })
}

/** The key of a link opens these two routes only. It is not a personal key, and personal keys open nothing here. */
async function linkedBoardRoutes (
  app: FastifyInstance, { sql, answerTile, managementRateLimit }: SharedDeps
): Promise<void> {
  const security = [{ boardLink: [] }]
  app.addSchema(tileAnswerSchema)
  app.decorateRequest('access', null)
  app.decorateRequest('sharedBoard', null)
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const keyHash = hashPersonalKey(/^Bearer +(phl_\w+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '')
    const board = await findSharedBoard(sql, keyHash)
    if (board === null) {
      throw new HttpError(401, 'authentication_error', 'authentication_failed', 'The link has expired, was deleted, or never existed.')
    }
    const recheck: Access['recheck'] = async () => {}
    const { projectId } = board
    const rights = { scopes: [], projectIds: [projectId], seesPersons: true }
    const requireScope: Access['requireScope'] = () => { throw notFound() }
    const nobody = { isSession: false, userId: 0, limits: [], maySql: false, rightsIn: () => rights, requireScope }
    request.access = { ...rights, ...nobody, keyHash, projectId, recheck }
    request.sharedBoard = board
  })
  await app.register(limitRate, { maxPerMinute: managementRateLimit })
  await app.register(recordRequests, { sql })

  app.get('/', {
    schema: {
      tags: ['boards'], security, summary: 'Retrieve a board by its link',
      response: { 200: object({ name: string, description: string, timezone: string, tiles }) }
    }
  }, async (request) => sharedBoardOf(request))

  app.get<{ Params: { tile_kind: string, tile_id: number } }>('/answers/:tile_kind/:tile_id', {
    config: { recorded: 'sql' },
    schema: {
      tags: ['boards'], security, summary: 'Answer the tiles of a board by its link', description: 'As on the board, without the SQL.',
      params: optional(ofTile), response: { 200: { $ref: 'TileAnswer#' } }
    }
  }, async (request) => {
    const { projectId, tiles, linkId, madeAt } = sharedBoardOf(request)
    const answer: { question?: object | null } = await answerTile({
      projectId, tile: tileOf(request.params, tiles), logComment: `link ${linkId} to a board`, unchangedSince: madeAt
    })
    return answer.question == null ? answer : { ...answer, question: { ...answer.question, sql: '' } }
  })
}

function sharedBoardOf ({ sharedBoard }: FastifyRequest): SharedBoard {
  if (sharedBoard === null) throw new Error('the request has no link')
  return sharedBoard
}
