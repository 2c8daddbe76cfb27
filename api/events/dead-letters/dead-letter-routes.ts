import type { FastifyInstance } from 'fastify'
import type { DeadLetter, DeadLetterFilter } from '../../../schema/wire/dead-letter-message.ts'
import { createDeadLetterGroups } from './group-dead-letters.ts'
import { countDeadLetters, listDeadLetters, readDeadLetterById } from './list-dead-letters.ts'
import { purgeDeadLetters, replayDeadLetters } from '../../../platform/dead-letters/replay-and-purge.ts'
import { requeueNotification } from '../../../platform/notifications.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { invalidField } from '../../../engines/errors.ts'
import { notFound } from '../../http/answer-errors.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../http/list-queries.ts'
import { optional } from '../../http/json-schema.ts'
import { type Access, accessOf, requireAllProjects } from '../../http/personal-key-access.ts'
import { defined, parseIsoDateTime } from '../../http/request-values.ts'
import { type Routes, routesOf } from '../../http/routes.ts'
import {
  deadLetterGroupsSchema, deadLetterSchema, groupsQuerySchema, listQuerySchema, openedDeadLetterSchema,
  purgeBodySchema, purgeResultSchema, replayBodySchema, replayResultSchema,
  type FilterFields
} from './dead-letter-schema.ts'
import { askStream, type NatsOnDemand } from './nats-on-demand.ts'

const idParams = optional({ id: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER } })
const DEFAULT_REPLAY_LIMIT = 1000
const NOTHING = { matched: 0, replayed: 0, skipped: 0 }
const NOTHING_PURGED = { matched: 0, purged: 0 }

const MOST_PURGED = 10_000

const ORDER = 'oldest'

interface DeadLetterDeps { sql: Sql, nats: NatsOnDemand, publicUrl: string, now: () => number }

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
  const routes = routesOf(app, { tag: 'dead letters', object: 'dead_letter', publicUrl: deps.publicUrl })
  readingRoutes(routes, deps)
  replayRoutes(routes, deps)
  purgeRoutes(routes, deps)
}

function readingRoutes (routes: Routes, { nats, now }: DeadLetterDeps): void {
  const groupDeadLetters = createDeadLetterGroups()

  routes.list('/', {
    summary: 'List dead letters', description: 'Oldest first.', query: listQuerySchema, item: { $ref: 'DeadLetter#' }
  }, async ({ query }, access) => {
    const filter = readFilter(access, query)
    const { limit, offset } = query
    const [after] = decodeCursor(query.after, ORDER, ['integer']) ?? []
    const begin = after === undefined ? { offset } : { fromId: Math.max(0, Number(after)) + 1 }
    const [found, count] = await askStream(nats, [[], 0], async (connection) => [
      await listDeadLetters(connection, { ...filter, ...begin, limit: limit + 1 }),
      await countDeadLetters(connection, filter)
    ])
    const page = cutPage(found, { limit, count, cursorOf: ({ id }) => encodeCursor(ORDER, [String(id)]) })
    return { ...page, results: page.results.map(describe) }
  })

  routes.get('/groups', {
    summary: 'Group dead letters', query: groupsQuerySchema, answer: deadLetterGroupsSchema,
    description: 'By stage, reason, error code and event name; largest group first.'
  }, async ({ query }, access) => {
    const filter = readFilter(access, query)
    const nothing = { count: 0, ungrouped: 0, results: [] }
    return await askStream(nats, nothing, async (connection) => await groupDeadLetters(connection, filter, now()))
  })

  routes.get('/:id', {
    summary: 'Retrieve a dead letter', params: idParams, answer: openedDeadLetterSchema, config: { recorded: 'dead_letters' }
  }, async ({ params: { id } }, access) => {
    const letter = await askStream(nats, null, async (connection) => await readDeadLetterById(connection, id))
    const { project } = readProject(access)
    if (letter === null || (project !== undefined && letter.project !== project)) throw notFound()
    return { ...describe(letter), headers: letter.headers, content: letter.content, body_base64: letter.bodyBase64 }
  })
}

function replayRoutes (routes: Routes, { sql, nats }: DeadLetterDeps): void {
  const requeue = async (body: Uint8Array): Promise<boolean> =>
    await requeueNotification(sql, JSON.parse(Buffer.from(body).toString()))

  routes.post('/replay', {
    // No body means all of them.
    preValidation: async (request) => { request.body ??= {} },
    summary: 'Replay dead letters', body: replayBodySchema, answer: replayResultSchema,
    description: 'Publishes dead letters to their stream again. Events keep their UUID and are deduplicated against stored events, so a replay stores each once.'
  }, async ({ body }, access) => {
    const { limit = DEFAULT_REPLAY_LIMIT, dry_run: dryRun = false } = body
    const work = { ...readFilter(access, body), limit, dryRun, requeue }
    return await askStream(nats, NOTHING, async (connection) => await replayDeadLetters(connection, work))
  })

  routes.post('/:id/replay', {
    summary: 'Replay a dead letter', params: idParams, answer: replayResultSchema
  }, async ({ params: { id } }, access) => {
    const result = await askStream(nats, NOTHING, async (connection) =>
      await replayDeadLetters(connection, { id, ...readProject(access), requeue }))
    if (result.matched === 0) throw notFound()
    return result
  })
}

function purgeRoutes (routes: Routes, { nats }: DeadLetterDeps): void {
  routes.post('/purge', {
    summary: 'Purge dead letters', body: purgeBodySchema, answer: purgeResultSchema,
    description: 'Permanently deletes dead letters and the events in them, oldest first.'
  }, async ({ body }, access) => {
    const { limit, dry_run: dryRun = false } = body
    if (!dryRun && limit === undefined) {
      throw invalidField('limit', 'limit: This field is required without dry_run.', 'required')
    }
    const work = { ...readFilter(access, body), limit: limit ?? MOST_PURGED, dryRun }
    return await askStream(nats, NOTHING_PURGED, async (connection) => await purgeDeadLetters(connection, work))
  })

  routes.delete('/:id', { summary: 'Purge a dead letter', params: idParams }, async ({ params: { id } }, access) => {
    const { purged } = await askStream(nats, NOTHING_PURGED, async (connection) =>
      await purgeDeadLetters(connection, { id, ...readProject(access) }))
    if (purged === 0) throw notFound()
  })
}

function readFilter (
  access: Access, { stage, reason, event, error_code: errorCode, from, to }: FilterFields
): DeadLetterFilter {
  const period = { from: parseIsoDateTime(from), to: parseIsoDateTime(to) }
  return { ...readProject(access), ...defined({ stage, reason, event, errorCode, ...period }) }
}

/** The project of the path; without one, all letters are asked for. */
function readProject ({ projectId }: Access): { project?: number } {
  return projectId === 0 ? {} : { project: projectId }
}

function describe ({ id, stage, reason, time, error, errorCode, project, event, uuid, rows }: DeadLetter): object {
  return { id, stage, reason, time, error, error_code: errorCode, project, event, uuid, rows }
}
