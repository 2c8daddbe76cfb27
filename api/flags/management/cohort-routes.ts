import type { FastifyInstance, FastifyReply } from 'fastify'
import { HttpError, invalidField } from '../../../engines/errors.ts'
import { isFields } from '../../../engines/fields.ts'
import { MalformedFlagError } from '../../../engines/flags/flag-definition.ts'
import { readQuestion } from '../../../engines/questions/read-question.ts'
import type { SqlTemplates } from '../../../platform/postgres/connect-postgres.ts'
import { requireScope } from '../../../schema/scopes.ts'
import { notFound } from '../../http/answer-errors.ts'
import { array, bodyOf, object, type Value } from '../../http/json-schema.ts'
import type { Access } from '../../http/personal-key-access.ts'
import { idParams } from '../../http/request-values.ts'
import { routesOf } from '../../http/routes.ts'
import { listPersonsBehind, type QuestionDeps } from '../../questions/answer-question.ts'
import { ask, readCell } from '../../questions/question-routes.ts'
import { cellSchema, definitionSchema } from '../../questions/question-schemas.ts'
import { validateCohort } from './validate-flag.ts'
import { openFlagWriter } from './write-feature-flag.ts'

const MAX_COHORTS = 10_000
const MAX_MEMBERS = 1_000_000

/** Persons of one insert. */
const MEMBERS_AT_ONCE = 20_000

const filtersSchema = {
  type: 'object', additionalProperties: true,
  description: '`{type: AND | OR, values: [...]}`, nested: filters as in flag conditions, each optionally with `negation`.'
} as const

const cohortSchema = object({
  id: { type: 'integer' },
  name: { type: 'string' },
  is_static: { type: 'boolean', description: 'true: a list of persons instead of filters.' },
  filters: { ...filtersSchema, type: ['object', 'null'], description: 'As written; null for a static cohort.' },
  people: { type: ['integer', 'null'], description: 'Persons of a static cohort; null: not counted.' }
}, { $id: 'Cohort' })

const newCohortSchema = bodyOf({
  name: { type: 'string', minLength: 1, pattern: '\\S', maxLength: 400 }, filters: filtersSchema,
  question: {
    ...object({ definition: definitionSchema, cell: cellSchema }, { additionalProperties: false }),
    description: 'In place of `filters`: a number of an answer, whose persons as of now become a static cohort. Also needs the scopes query:read and person:read.'
  }
}, 'name')

const one = { $ref: 'Cohort#' }

export async function cohortRoutes (app: FastifyInstance, deps: QuestionDeps): Promise<void> {
  const { sql } = deps
  const routes = routesOf(app, { tag: 'feature flags', object: 'feature_flag' })
  app.addSchema(cohortSchema)

  routes.get('/', {
    summary: 'List cohorts', description: `By name, at most ${MAX_COHORTS}.`, answer: object({ results: array(one) })
  }, async (request, { projectId }) => ({
    results: await sql`
      SELECT id, name, is_static, filters, ${peopleSql(sql)} AS people FROM cohorts WHERE project_id = ${projectId} AND NOT deleted
      ORDER BY lower(name), id LIMIT ${MAX_COHORTS}`
  }))

  routes.create('/', {
    summary: 'Create a cohort', body: newCohortSchema, answer: one,
    description: 'All persons whose properties match the filters, or the stored persons behind a number of a question. A cohort cannot be changed; create another one instead.'
  }, async ({ body: { name, filters, question } }, access, reply) => {
    if ((filters === undefined) === (question === undefined)) throw invalidField('filters', 'Either filters or a question is expected.')
    // Before the transaction, which would wait for ClickHouse.
    const members = question === undefined ? [] : await findMembers(question, access, reply, deps)
    return await sql.begin(async (tx) => {
      const { definitions } = await openFlagWriter(tx, access)
      if (filters !== undefined) refuseInvalid(() => { validateCohort(filters, definitions) })
      const row = filters === undefined ? { is_static: true } : { filters: tx.json(filters) }
      const [{ id }] = await tx<[{ id: number }]>`
        INSERT INTO cohorts ${tx({ project_id: access.projectId, name, ...row })} RETURNING id`
      for (let at = 0; at < members.length; at += MEMBERS_AT_ONCE) {
        await tx`
          INSERT INTO cohort_members (cohort_id, person_id)
          SELECT ${id}, id FROM persons WHERE project_id = ${access.projectId} AND uuid = ANY (${members.slice(at, at + MEMBERS_AT_ONCE)}::uuid[])`
      }
      const [cohort] = await tx`SELECT id, name, is_static, filters, ${peopleSql(tx)} AS people FROM cohorts WHERE id = ${id}`
      return cohort
    })
  })

  routes.delete('/:id', {
    summary: 'Delete a cohort', params: idParams, description: 'Refused while a flag or another cohort refers to it.'
  }, async ({ params: { id } }, { projectId, userId, keyHash }) => await sql.begin(async (tx) => {
    const { definitions: { flags, cohorts } } = await openFlagWriter(tx, { projectId, userId, keyHash })
    if (!cohorts.some((cohort) => cohort.id === id)) throw notFound()
    const users = [
      ...flags.filter(({ filters }) => namesCohort(filters, id)).map(({ key }) => `the feature flag ${key}`),
      ...cohorts.filter(({ filters }) => namesCohort(filters, id)).map((cohort) => `the cohort ${cohort.id}`)
    ]
    if (users.length > 0) throw new HttpError(400, 'validation_error', 'has_dependents', `The cohort is used by ${users.slice(0, 10).join(', ')}.`)
    await tx`UPDATE cohorts SET deleted = true WHERE project_id = ${projectId} AND id = ${id}`
  }))
}

const peopleSql = (sql: SqlTemplates) => sql`
  CASE WHEN is_static THEN (SELECT count(*)::integer FROM cohort_members WHERE cohort_id = cohorts.id) END`

/** The persons behind a number, as far as ClickHouse knows them. @throws {HttpError} 400 for too many of them. */
async function findMembers (
  { definition, cell }: { definition: unknown, cell: Value<typeof cellSchema> },
  access: Access, reply: FastifyReply, deps: QuestionDeps
): Promise<string[]> {
  for (const scope of ['query:read', 'person:read'] as const) requireScope(access.scopes, scope)
  const question = readQuestion(definition)
  const place = readCell(question, cell)
  return await ask(access, reply, deps, async (asking) => {
    const { people, results } = await listPersonsBehind(question, place, asking, MAX_MEMBERS)
    if (people > MAX_MEMBERS) throw invalidField('question', `Of ${people} persons, a cohort may have ${MAX_MEMBERS}.`)
    return results.map(({ person_id: person }) => person)
  })
}

/** @throws {HttpError} 400 for filters that cannot be evaluated. */
function refuseInvalid (check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw invalidField('filters', error.message, error.code, error)
  }
}

/** Whether filters, of a flag or a cohort, have a filter on this cohort, however deep. */
function namesCohort (value: unknown, id: number): boolean {
  if (Array.isArray(value)) return value.some((item) => namesCohort(item, id))
  if (!isFields(value)) return false
  return (value['type'] === 'cohort' && Number(value['value']) === id) || Object.values(value).some((item) => namesCohort(item, id))
}
