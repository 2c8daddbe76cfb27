import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { DeadLetter, DeadLetterFilter } from '../../../platform/dead-letters/publish-dead-letter.ts'
import { createDeadLetterGroups } from './group-dead-letters.ts'
import { countDeadLetters, listDeadLetters, readDeadLetterById } from '../../../platform/dead-letters/read-dead-letters.ts'
import { purgeDeadLetters, replayDeadLetters } from '../../../platform/dead-letters/replay-and-purge.ts'
import { HttpError } from '../../../engines/errors.ts'
import { notFound } from '../../http/errors.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../http/list-queries.ts'
import { buildPage, pageSchema, type PageQuery } from '../../http/pagination.ts'
import { accessOf, requireAllProjects } from '../../http/personal-key-access.ts'
import { parseIsoDateTime } from '../../http/request-values.ts'
import {
  deadLetterGroupsSchema, deadLetterSchema, groupsQuerySchema, listQuerySchema, openedDeadLetterSchema,
  purgeBodySchema, purgeResultSchema, replayBodySchema, replayResultSchema,
  type FilterFields, type ReplayFields
} from './dead-letter-schema.ts'
import { askStream, type NatsOnDemand } from './nats-on-demand.ts'

const read = { scope: 'dead_letter:read' } as const
const write = { scope: 'dead_letter:write' } as const
const tags = ['dead letters']
const idParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER } } }
const DEFAULT_REPLAY_LIMIT = 1000
const NOTHING = { matched: 0, replayed: 0, skipped: 0 }
const NOTHING_PURGED = { matched: 0, purged: 0 }

/** Limit of a dry run without `limit`. */
const MOST_PURGED = 10_000

/** Name of the sort order in cursors. */
const ORDER = 'oldest'

interface DeadLetterDeps { nats: NatsOnDemand, publicUrl: string, now: () => number }

interface Params {
  Params: { project_id: string, id: number }
}

/**
 * Dead letters: what could not be stored, and its replay.
 *
 * @param deps.ofAllProjects  For keys of all projects: also those about several, or about none.
 */
export async function deadLetterRoutes (
  app: FastifyInstance, deps: DeadLetterDeps & { ofAllProjects?: true }
): Promise<void> {
  app.addSchema(deadLetterSchema)
  if (deps.ofAllProjects === true) app.addHook('preValidation', async (request) => { requireAllProjects(accessOf(request)) })
  readingRoutes(app, deps)
  replayRoutes(app, deps)
  purgeRoutes(app, deps)
}

function readingRoutes (app: FastifyInstance, { nats, publicUrl, now }: DeadLetterDeps): void {
  const groupDeadLetters = createDeadLetterGroups()

  app.get<{ Querystring: PageQuery & FilterFields & { after?: string } }>('/', {
    config: read,
    schema: {
      tags, summary: 'List dead letters', description: 'Oldest first.', querystring: listQuerySchema,
      response: { 200: pageSchema({ $ref: 'DeadLetter#' }) }
    }
  }, async (request) => {
    const filter = readFilter(request, request.query)
    const { limit, offset } = request.query
    const [after] = decodeCursor(request.query.after, ORDER, ['integer']) ?? []
    const begin = after === undefined ? { offset } : { fromId: Math.max(0, Number(after)) + 1 }
    const [found, count] = await askStream(nats, [[], 0], async (connection) => [
      await listDeadLetters(connection, { ...filter, ...begin, limit: limit + 1 }),
      await countDeadLetters(connection, filter)
    ])
    const page = cutPage(found, { limit, count, cursorOf: ({ id }) => encodeCursor(ORDER, [String(id)]) })
    return buildPage(request, publicUrl, { ...page, results: page.results.map(describe) })
  })

  app.get<{ Querystring: FilterFields }>('/groups', {
    config: read,
    schema: {
      tags, summary: 'Group dead letters', querystring: groupsQuerySchema, response: { 200: deadLetterGroupsSchema },
      description: 'By stage, reason, code of the error and name of the event; most first.'
    }
  }, async (request) => {
    const filter = readFilter(request, request.query)
    const nothing = { groups: [], count: 0, ungrouped: 0 }
    const { groups, count, ungrouped } = await askStream(nats, nothing, async (connection) =>
      await groupDeadLetters(connection, filter, now()))
    return {
      count,
      ungrouped,
      results: groups.map(({ errorCode, byHour, ...group }) => ({ ...group, error_code: errorCode, by_hour: byHour }))
    }
  })

  app.get<Params>('/:id', {
    config: read,
    schema: { tags, summary: 'Retrieve a dead letter', params: idParams, response: { 200: openedDeadLetterSchema } }
  }, async (request) => {
    const { id } = request.params
    const letter = await askStream(nats, null, async (connection) => await readDeadLetterById(connection, id))
    if (letter === null || isHidden(letter, request)) throw notFound()
    return { ...describe(letter), headers: letter.headers, content: letter.content, body_base64: letter.bodyBase64 }
  })
}

function replayRoutes (app: FastifyInstance, { nats }: DeadLetterDeps): void {
  app.post<{ Body: ReplayFields }>('/replay', {
    config: write,
    // No body means all of them.
    preValidation: async (request) => { request.body ??= {} },
    schema: {
      tags, summary: 'Replay dead letters', body: replayBodySchema, response: { 200: replayResultSchema },
      description: 'Publishes dead letters to their stream again. Events keep their UUID, which is compared with what is stored, so a replay stores each once.'
    }
  }, async (request) => {
    const { limit = DEFAULT_REPLAY_LIMIT, dry_run: dryRun = false } = request.body
    const work = { ...readFilter(request, request.body), limit, dryRun }
    return await askStream(nats, NOTHING, async (connection) => await replayDeadLetters(connection, work))
  })

  app.post<Params>('/:id/replay', {
    config: write,
    schema: { tags, summary: 'Replay a dead letter', params: idParams, response: { 200: replayResultSchema } }
  }, async (request) => {
    const result = await askStream(nats, NOTHING, async (connection) =>
      await replayDeadLetters(connection, { id: request.params.id, ...readProject(request) }))
    if (result.matched === 0) throw notFound()
    return result
  })
}

function purgeRoutes (app: FastifyInstance, { nats }: DeadLetterDeps): void {
  app.post<{ Body: ReplayFields }>('/purge', {
    config: write,
    schema: {
      tags, summary: 'Purge dead letters', body: purgeBodySchema, response: { 200: purgeResultSchema },
      description: 'Deletes dead letters for good, oldest first: their events are lost.'
    }
  }, async (request) => {
    const { limit, dry_run: dryRun = false } = request.body
    if (!dryRun && limit === undefined) {
      throw new HttpError(400, 'validation_error', 'required', 'limit: This field is required without dry_run.', { attr: 'limit' })
    }
    const work = { ...readFilter(request, request.body), limit: limit ?? MOST_PURGED, dryRun }
    return await askStream(nats, NOTHING_PURGED, async (connection) => await purgeDeadLetters(connection, work))
  })

  app.delete<Params>('/:id', {
    config: write,
    schema: { tags, summary: 'Purge a dead letter', params: idParams, response: { 204: { type: 'null' } } }
  }, async (request, reply) => {
    const { purged } = await askStream(nats, NOTHING_PURGED, async (connection) =>
      await purgeDeadLetters(connection, { id: request.params.id, ...readProject(request) }))
    if (purged === 0) throw notFound()
    return await reply.code(204).send()
  })
}

function readFilter (
  request: FastifyRequest, { stage, reason, event, error_code: errorCode, from, to }: FilterFields
): DeadLetterFilter {
  const [since, until] = [from, to].map((text) => text === undefined ? undefined : parseIsoDateTime(text))
  return {
    ...readProject(request),
    ...(stage === undefined ? {} : { stage }),
    ...(reason === undefined ? {} : { reason }),
    ...(event === undefined ? {} : { event }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(since === undefined ? {} : { from: since }),
    ...(until === undefined ? {} : { to: until })
  }
}

/** The project of the path; without one, all letters are asked for. */
function readProject (request: FastifyRequest): { project?: number } {
  const { projectId } = accessOf(request)
  return projectId === 0 ? {} : { project: projectId }
}

function isHidden (letter: DeadLetter, request: FastifyRequest): boolean {
  const { project } = readProject(request)
  return project !== undefined && letter.project !== project
}

function describe ({ id, stage, reason, time, error, errorCode, project, event, uuid, rows }: DeadLetter): object {
  return { id, stage, reason, time, error, error_code: errorCode, project, event, uuid, rows }
}
