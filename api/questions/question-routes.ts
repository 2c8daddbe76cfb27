import type { FastifyInstance, FastifyReply } from 'fastify'
import { invalidField } from '../../engines/errors.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import { tagOfPart } from '../../engines/questions/shape-answer.ts'
import { requireScope } from '../../schema/scopes.ts'
import { bodyOf, object } from '../http/json-schema.ts'
import { type Access, accessOf } from '../http/personal-key-access.ts'
import { idParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { describePersons } from '../persons/person-history-routes.ts'
import { type DocumentKind, documentRoutes, findDocument } from '../queries/named-documents.ts'
import { logCommentOf, runQuery } from '../queries/sql-routes.ts'
import { answerQuestion, type Asking, listDropouts, type QuestionDeps, readAsking } from './answer-question.ts'
import { answerSchema, definitionSchema, dropoutsSchema, part } from './question-schemas.ts'

/** A query may take 60 s; the rest is for waiting in ClickHouse. */
const MAX_SECONDS = 90

const fields = { definition: definitionSchema } as const

export const QUESTIONS: DocumentKind<typeof fields> = {
  table: 'questions', id: 'Question', noun: 'question', plural: 'questions', fields, defaults: {},
  check ({ definition }) { if (definition !== undefined) readQuestion(definition) }
}

/**
 * Questions with pictures: definitions that people keep, and their answers. These run with the login and the limits of
 * analysts. Each query is compiled here for one project, so a key of some projects may ask, other than for its own SQL.
 */
export async function questionRoutes (app: FastifyInstance, deps: QuestionDeps & { publicUrl: string }): Promise<void> {
  const routes = routesOf(app, { tag: 'questions', object: 'query' })
  const answer = { $ref: 'QuestionAnswer#' }
  app.addSchema(answerSchema)
  await documentRoutes(app, deps, QUESTIONS)

  routes.get('/:id/answer', {
    summary: 'Answer a question', params: idParams, answer
  }, async ({ params: { id } }, access, reply) => {
    const { definition } = await findDocument(deps.sql, QUESTIONS, { projectId: access.projectId, id })
    return await ask(access, reply, deps, async (asking) => await answerQuestion(readQuestion(definition), asking))
  })

  routes.post('/answer', {
    scope: 'query:read', summary: 'Answer a definition', description: 'The definition need not be saved.',
    body: object({ definition: definitionSchema }, { additionalProperties: false }), answer
  }, async ({ body }, access, reply) => {
    const question = readQuestion(body.definition)
    return await ask(access, reply, deps, async (asking) => await answerQuestion(question, asking))
  })

  routes.post('/dropouts', {
    scope: 'query:read',
    // Before the body is looked at, as for every scope.
    preValidation: async (request) => requireScope(accessOf(request).scopes, 'person:read'),
    summary: 'List who dropped out of a funnel',
    description: 'Persons who reached the previous step but not this one, latest entry first. Also needs the scope person:read.',
    body: bodyOf({
      definition: definitionSchema, step: { type: 'integer', minimum: 2, description: 'Step that was not reached, from 1.' },
      limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
      ...part
    }, 'definition', 'step'),
    answer: dropoutsSchema
  }, async (request, access, reply) => {
    const { definition, step, limit = 100, part: of = 'all', value = null } = request.body
    const question = readQuestion(definition)
    if (question.kind !== 'funnel') throw invalidField('definition__kind', 'Nobody drops out of anything but a funnel.')
    if (step > question.steps.length) throw invalidField('step', `The funnel has ${question.steps.length} steps.`)
    if (of !== 'all' && question.breakdown === null) throw invalidField('part', 'The funnel is not broken down.')
    if ((of === 'value') !== (value !== null)) throw invalidField('value', 'It is given with the part "value", and with no other.')
    return await ask(access, reply, deps, async (asking) => {
      const asked = { step, limit, tag: tagOfPart({ part: of, value }) }
      const { results, ...facts } = await listDropouts(question, asking, asked)
      const stored = await describePersons(deps.sql, asking.projectId, results.map(({ person_id: person }) => person))
      const names = new Map(stored.map(({ uuid, name, distinct_ids: [id = ''] }) => [uuid, name === '' ? id : name]))
      return {
        ...facts,
        results: results.map((each) => ({ ...each, name: names.get(each.person_id) ?? '', is_known: names.has(each.person_id) }))
      }
    })
  })
}

/** Asks for as long as the client waits. */
async function ask<T> (
  access: Access, reply: FastifyReply, deps: QuestionDeps, answer: (asking: Asking) => Promise<T>
): Promise<T> {
  const asking = await readAsking(deps, { projectId: access.projectId, logComment: logCommentOf(access) })
  return await runQuery(deps.queries.begin(access.keyHash, MAX_SECONDS), async ({ signal, cancel }) => {
    reply.raw.once('close', cancel)
    return await answer({ ...asking, signal })
  })
}
