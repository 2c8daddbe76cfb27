import type { FastifyInstance } from 'fastify'
import { HttpError, invalidField } from '../../../engines/errors.ts'
import { isFields } from '../../../engines/fields.ts'
import { MalformedFlagError } from '../../../engines/flags/flag-definition.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { notFound } from '../../http/answer-errors.ts'
import { array, bodyOf, object } from '../../http/json-schema.ts'
import { idParams } from '../../http/request-values.ts'
import { routesOf } from '../../http/routes.ts'
import { validateCohort } from './validate-flag.ts'
import { openFlagWriter } from './write-feature-flag.ts'

const MAX_COHORTS = 10_000

const filtersSchema = {
  type: 'object', additionalProperties: true,
  description: '`{type: AND | OR, values: [...]}`, nested: filters as in flag conditions, each optionally with `negation`.'
} as const

const cohortSchema = object({
  id: { type: 'integer' },
  name: { type: 'string' },
  is_static: { type: 'boolean', description: 'true: a list of persons instead of filters.' },
  filters: { ...filtersSchema, type: ['object', 'null'], description: 'As written; null for a static cohort.' }
}, { $id: 'Cohort' })

const newCohortSchema = bodyOf({
  name: { type: 'string', minLength: 1, pattern: '\\S', maxLength: 400 }, filters: filtersSchema
}, 'name', 'filters')

const one = { $ref: 'Cohort#' }

export async function cohortRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  const routes = routesOf(app, { tag: 'feature flags', object: 'feature_flag' })
  app.addSchema(cohortSchema)

  routes.get('/', {
    summary: 'List cohorts', description: `By name, at most ${MAX_COHORTS}.`, answer: object({ results: array(one) })
  }, async (request, { projectId }) => ({
    results: await sql`
      SELECT id, name, is_static, filters FROM cohorts WHERE project_id = ${projectId} AND NOT deleted
      ORDER BY lower(name), id LIMIT ${MAX_COHORTS}`
  }))

  routes.create('/', {
    summary: 'Create a cohort', body: newCohortSchema, answer: one,
    description: 'All persons whose properties match the filters. A cohort cannot be changed; create another one instead.'
  }, async ({ body: { name, filters } }, { projectId, userId, keyHash }) => await sql.begin(async (tx) => {
    const { definitions } = await openFlagWriter(tx, { projectId, userId, keyHash })
    refuseInvalid(() => { validateCohort(filters, definitions) })
    const [cohort] = await tx`
      INSERT INTO cohorts ${tx({ project_id: projectId, name, filters: tx.json(filters) })} RETURNING id, name, is_static, filters`
    return cohort
  }))

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
