import type { FastifyInstance, FastifyReply } from 'fastify'
import { invalidField } from '../../engines/errors.ts'
import { timesOf } from '../../engines/questions/funnel-sql.ts'
import type { Cell } from '../../engines/questions/compile-question.ts'
import type { Question } from '../../engines/questions/question.ts'
import { readNewQuestion, readQuestion } from '../../engines/questions/read-question.ts'
import { tagOfPart } from '../../engines/questions/shape-answer.ts'
import { bodyOf, object, type Value } from '../http/json-schema.ts'
import { type Access, accessOf } from '../http/personal-key-access.ts'
import { idParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { askAs } from '../people/mask-mails.ts'
import { describePersons } from '../persons/person-history-routes.ts'
import { type DocumentKind, documentRoutes, findDocument } from '../queries/named-documents.ts'
import { logCommentOf, runQuery } from '../queries/sql-routes.ts'
import { answerQuestion, type Asking, listPersonsBehind, type QuestionDeps, readAsking } from './answer-question.ts'
import { answerSchema, asOfSchema, CELL_FIELDS, cellSchema, definitionSchema, personsBehindSchema } from './question-schemas.ts'
import { requireCohorts } from './used-cohorts.ts'

/** A query may take 60 s; the rest is for waiting in ClickHouse. */
const MAX_SECONDS = 90

const fields = { definition: definitionSchema } as const

export const QUESTIONS: DocumentKind<typeof fields> = {
  table: 'questions', id: 'Question', noun: 'question', plural: 'questions', fields, defaults: {},
  async check ({ definition }, { sql, projectId, access }) {
    if (definition === undefined) return
    askAs(access, definition, readNewQuestion(definition))
    await requireCohorts(sql, projectId, { definition })
  }
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
    const question = askAs(access, body.definition, readNewQuestion(body.definition))
    return await ask(access, reply, deps, async (asking) => await answerQuestion(question, asking))
  })

  routes.post('/persons', {
    scope: 'query:read', config: { recorded: 'persons' },
    // Before the body is looked at, as for every scope.
    preValidation: async (request) => accessOf(request).requireScope('person:read'),
    summary: 'List the persons behind a number',
    description: 'Runs the query of the answer for one of its numbers. Latest first. Also requires the scope person:read.',
    body: bodyOf({
      definition: definitionSchema, cell: cellSchema, as_of: asOfSchema, limit: { type: 'integer', minimum: 1, maximum: 10_000, default: 100 }
    }, 'definition', 'cell'),
    answer: personsBehindSchema
  }, async ({ body: { definition, cell, as_of: asOf, limit = 100 } }, access, reply) => {
    const question = readNewQuestion(definition)
    const place = readCell(question, cell)
    return await ask(access, reply, deps, async (asking) => {
      const { results, ...facts } = await listPersonsBehind(question, place, asking, { limit, asOf })
      const stored = await describePersons(deps.sql, asking.projectId, results.map(({ person_id: person }) => person))
      const names = new Map(stored.map(({ uuid, name, distinct_ids: [id = ''] }) => [uuid, name === '' ? id : name]))
      return {
        ...facts,
        results: results.map((each) => ({ ...each, name: names.get(each.person_id) ?? '', is_known: names.has(each.person_id) }))
      }
    })
  })
}

/** @throws {HttpError} 400 naming a field that the answer does not have. */
export function readCell (question: Question, cell: Value<typeof cellSchema>): Cell {
  const { part: of = 'all', value = null, series = 0, start = null, step, returned = 0, state, periods, from = null, to = null } = cell
  const own = CELL_FIELDS[question.kind]
  const foreign = Object.entries(cell).find(([name, given]) => given != null && !['part', 'value', ...own].includes(name))
  if (foreign !== undefined) throw invalidField(`cell__${foreign[0]}`, `The numbers of a ${question.kind} have the fields ${own.join(', ')}.`)
  const breakdown = 'breakdown' in question ? question.breakdown : null
  const isBrokenDown = breakdown !== null
  if (of !== 'all' && !isBrokenDown) throw invalidField('cell__part', `The ${question.kind} has no breakdown.`)
  const isOne = of === 'value' || of === 'cohort'
  if (isOne && (of === 'cohort') !== (breakdown?.type === 'cohort')) throw invalidField('cell__part', `The breakdown has no part "${of}".`)
  if (isOne !== (value !== null)) throw invalidField('cell__value', 'Only the parts "value" and "cohort" have a value, which they require.')
  const tag = tagOfPart({ part: of, value })
  switch (question.kind) {
    case 'trend':
      if (series >= question.series.length) throw invalidField('cell__series', `The trend has ${question.series.length} series, from 0.`)
      if (cell.previous === true && !question.compare) throw invalidField('cell__previous', 'The trend has no comparison.')
      if (of === 'all' && isBrokenDown) throw invalidField('cell__part', 'A trend with a breakdown has no total line.')
      return { kind: 'trend', series, isPrevious: cell.previous === true, start, tag }
    case 'funnel': {
      const { outcome = 'reached', from_ms: fromMs = null } = cell
      const first = outcome === 'reached' ? 1 : 2
      if (step === undefined || step < first || step > question.steps.length) throw invalidField('cell__step', `Expected a step from ${first} to ${question.steps.length}.`)
      if (fromMs !== null && (step === 1 || outcome === 'lost' || !timesOf(question).includes(fromMs))) throw invalidField('cell__from_ms', 'Expected the start of a range of times of a step that was reached.')
      return { kind: 'funnel', step, outcome, tag, fromMs }
    }
    case 'paths':
      if (step !== undefined && step > question.steps) throw invalidField('cell__step', `Expected a step from 1 to ${question.steps}.`)
      if (step === undefined && (from ?? to) !== null) throw invalidField('cell__step', 'Expected the step of the edge.')
      return { kind: 'paths', edge: step === undefined ? null : { step, from, to } }
    case 'retention':
      if (start === null) throw invalidField('cell__start', 'Expected the period in which people started.')
      return { kind: 'retention', start, returned }
    case 'lifecycle':
      if (start === null) throw invalidField('cell__start', 'Expected the start of a point.')
      if (state === undefined) throw invalidField('cell__state', 'Expected the state of the people.')
      return { kind: 'lifecycle', start, state }
    case 'stickiness':
      if (periods === undefined) throw invalidField('cell__periods', 'Expected the number of periods.')
      return { kind: 'stickiness', periods }
  }
}

/** Asks for as long as the client waits. */
export async function ask<T> (
  access: Access, reply: FastifyReply, deps: QuestionDeps, answer: (asking: Asking) => Promise<T>
): Promise<T> {
  const asking = await readAsking(deps, { projectId: access.projectId, logComment: logCommentOf(access) })
  return await runQuery(deps.queries.begin(access.keyHash, MAX_SECONDS), async ({ signal, cancel }) => {
    reply.raw.once('close', cancel)
    return await answer({ ...asking, signal })
  })
}
