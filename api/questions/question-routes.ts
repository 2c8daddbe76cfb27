import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import { type ClickHouse, parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { requireScope } from '../../schema/scopes.ts'
import { cursorQueryProperties, searchQueryProperties } from '../http/list-queries.ts'
import { buildPage, pageQueryProperties, pageSchema } from '../http/pagination.ts'
import { accessOf } from '../http/personal-key-access.ts'
import type { RunningQueries } from '../queries/answer-query.ts'
import { logCommentOf, sqlNotSetUp, toHttpError } from '../queries/sql-routes.ts'
import { answerQuestion, type Asking, listDropouts } from './answer-question.ts'
import { answerSchema, changesSchema, definitionSchema, dropoutsSchema, questionSchema } from './question-schemas.ts'
import { createQuestion, deleteQuestion, findQuestion, listQuestions, type QuestionFields, type QuestionKey, type QuestionQuery, updateQuestion } from './question-store.ts'

interface QuestionDeps {
  sql: Sql
  clickhouse: ClickHouse
  analystUrl: string
  queries: RunningQueries
  publicUrl: string
  now: () => number
}

const read = { scope: 'query:read' } as const
const write = { scope: 'query:write' } as const
const tags = ['questions']
const one = { $ref: 'Question#' }
const params = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } as const
/** A query may take 60 s; the rest is for waiting in ClickHouse. */
const MAX_SECONDS = 90

interface QuestionParams {
  Params: { project_id: string, id: number }
}

interface DropoutsBody { definition: unknown, step: number, limit?: number }

/** Questions with pictures: definitions that people keep. */
export async function questionRoutes (app: FastifyInstance, deps: QuestionDeps): Promise<void> {
  const { sql, publicUrl } = deps
  app.addSchema(questionSchema)
  app.addSchema(answerSchema)
  answerRoutes(app, deps)

  app.get<{ Querystring: QuestionQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List questions', description: 'By name.',
      querystring: { type: 'object', properties: { ...pageQueryProperties, ...searchQueryProperties, ...cursorQueryProperties } },
      response: { 200: pageSchema(one) }
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    return buildPage(request, publicUrl, await listQuestions(sql, projectId, request.query))
  })

  app.post<{ Body: QuestionFields & { name: string } }>('/', {
    config: write,
    schema: { tags, summary: 'Create a question', body: { ...changesSchema, required: ['name', 'definition'] }, response: { 201: one } }
  }, async (request, reply) => await reply.code(201).send(await createQuestion(sql, accessOf(request), request.body)))

  app.get<QuestionParams>('/:id', {
    config: read, schema: { tags, summary: 'Retrieve a question', params, response: { 200: one } }
  }, async (request) => await findQuestion(sql, keyOf(request)))

  app.patch<QuestionParams & { Body: QuestionFields }>('/:id', {
    config: write, schema: { tags, summary: 'Update a question', params, body: changesSchema, response: { 200: one } }
  }, async (request) => await updateQuestion(sql, keyOf(request), request.body))

  app.delete<QuestionParams>('/:id', {
    config: write,
    schema: { tags, summary: 'Delete a question', params, response: { 204: { type: 'null', description: 'Deleted.' } } }
  }, async (request, reply) => {
    await deleteQuestion(sql, keyOf(request))
    return await reply.code(204).send()
  })
}

/**
 * Answers run with the ClickHouse login of analysts and its limits. The query is compiled here for the one project, so
 * that a key that is limited to some projects may ask, other than for SQL of its own.
 */
function answerRoutes (app: FastifyInstance, deps: QuestionDeps): void {
  const answer = { $ref: 'QuestionAnswer#' }

  app.get<QuestionParams>('/:id/answer', {
    config: read, schema: { tags, summary: 'Answer a question', params, response: { 200: answer } }
  }, async (request, reply) => {
    const { definition } = await findQuestion(deps.sql, keyOf(request))
    return await ask(request, reply, deps, async (asking) => await answerQuestion(readQuestion(definition), asking))
  })

  app.post<{ Body: { definition: unknown } }>('/answer', {
    config: read,
    schema: {
      tags, summary: 'Answer a definition', description: 'One that need not be stored.',
      body: { type: 'object', required: ['definition'], additionalProperties: false, properties: { definition: definitionSchema } },
      response: { 200: answer }
    }
  }, async (request, reply) => {
    const question = readQuestion(request.body.definition)
    return await ask(request, reply, deps, async (asking) => await answerQuestion(question, asking))
  })

  app.post<{ Body: DropoutsBody }>('/dropouts', {
    config: read,
    // Before the body is looked at, as for every scope.
    preValidation: async (request) => requireScope(accessOf(request).scopes, 'person:read'),
    schema: {
      tags, summary: 'List who dropped out of a funnel',
      description: 'Persons who reached the step before and not this one; who entered last comes first. Needs the scope person:read as well.',
      body: {
        type: 'object', required: ['definition', 'step'], additionalProperties: false,
        properties: {
          definition: definitionSchema, step: { type: 'integer', minimum: 2, description: 'The step that they did not reach, from 1.' },
          limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 }
        }
      },
      response: { 200: dropoutsSchema }
    }
  }, async (request, reply) => {
    const { definition, step, limit = 100 } = request.body
    const question = readQuestion(definition)
    if (question.kind !== 'funnel') throw invalid('definition__kind', 'Nobody drops out of anything but a funnel.')
    if (step > question.steps.length) throw invalid('step', `The funnel has ${question.steps.length} steps.`)
    return await ask(request, reply, deps, async (asking) => await listDropouts(question, asking, { step, limit }))
  })
}

function keyOf (request: FastifyRequest<QuestionParams>): QuestionKey {
  return { projectId: accessOf(request).projectId, id: request.params.id }
}

/** Asks for as long as the client waits. */
async function ask<T> (
  request: FastifyRequest, reply: FastifyReply, deps: QuestionDeps, answer: (asking: Asking) => Promise<T>
): Promise<T> {
  const { sql, clickhouse, analystUrl, queries, now } = deps
  if (analystUrl === '') throw sqlNotSetUp()
  const access = accessOf(request)
  const { projectId } = access
  const [project] = await sql<{ timezone: string }[]>`SELECT timezone FROM projects WHERE id = ${projectId}`
  const query = queries.begin(access.keyHash, MAX_SECONDS)
  reply.raw.once('close', query.cancel)
  try {
    return await answer({
      projectId, timezone: project?.timezone ?? 'UTC', now: now(), clickhouse, analyst: parseClickHouseUrl(analystUrl),
      logComment: logCommentOf(access), signal: query.signal
    })
  } catch (error) {
    throw toHttpError(query.signal.aborted ? query.signal.reason : error)
  } finally {
    query.end()
  }
}

function invalid (attr: string, detail: string): HttpError {
  return new HttpError(400, 'validation_error', 'invalid_input', detail, { attr })
}
