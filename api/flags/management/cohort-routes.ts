import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../../engines/errors.ts'
import { isFields } from '../../../engines/fields.ts'
import { MalformedFlagError } from '../../../engines/flags/flag-definition.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { notFound } from '../../http/errors.ts'
import { array, object } from '../../http/json-schema.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { validateCohort } from './validate-flag.ts'
import { openFlagWriter } from './write-feature-flag.ts'

/** Cohorts listed at most. */
const MAX_COHORTS = 10_000

const filtersSchema = {
  type: 'object', additionalProperties: true,
  description: '`{type: AND | OR, values: [...]}`, nested: filters as in conditions of flags, each perhaps with `negation`.'
} as const

const cohortSchema = object({
  id: { type: 'integer' },
  name: { type: 'string' },
  is_static: { type: 'boolean', description: 'A list of persons, not filters.' },
  filters: { ...filtersSchema, type: ['object', 'null'], description: 'As they were written; null for a static cohort.' }
}, { $id: 'Cohort' })

const newCohortSchema = {
  type: 'object',
  required: ['name', 'filters'],
  additionalProperties: false,
  properties: { name: { type: 'string', minLength: 1, pattern: '\\S', maxLength: 400 }, filters: filtersSchema }
} as const

const read = { scope: 'feature_flag:read' } as const
const write = { scope: 'feature_flag:write' } as const
const tags = ['feature flags']
const one = { $ref: 'Cohort#' }

/** The cohorts that conditions of flags may name. */
export async function cohortRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  app.addSchema(cohortSchema)

  app.get('/', {
    config: read,
    schema: {
      tags, summary: 'List cohorts', description: `By name, at most ${MAX_COHORTS}.`, response: { 200: object({ results: array(one) }) }
    }
  }, async (request) => {
    const results = await sql`
      SELECT id, name, is_static, filters FROM cohorts WHERE project_id = ${accessOf(request).projectId} AND NOT deleted
      ORDER BY lower(name), id LIMIT ${MAX_COHORTS}`
    return { results }
  })

  app.post<{ Body: { name: string, filters: Record<string, unknown> } }>('/', {
    config: write,
    schema: {
      tags, summary: 'Create a cohort', body: newCohortSchema, response: { 201: one },
      description: 'The persons whose properties match filters. A cohort cannot be changed; create another one instead.'
    }
  }, async (request, reply) => {
    const { name, filters } = request.body
    const { projectId, userId, keyHash } = accessOf(request)
    const [cohort] = await sql.begin(async (tx) => {
      const { definitions } = await openFlagWriter(tx, { projectId, userId, keyHash })
      refuseInvalid(() => { validateCohort(filters, definitions) })
      return await tx`
        INSERT INTO cohorts ${tx({ project_id: projectId, name, filters: tx.json(filters) })} RETURNING id, name, is_static, filters`
    })
    return await reply.code(201).send(cohort)
  })

  app.delete<{ Params: { id: number } }>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete a cohort',
      params: { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } },
      description: 'Refused while a flag or another cohort refers to it.',
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    const { projectId, userId, keyHash } = accessOf(request)
    const { id } = request.params
    await sql.begin(async (tx) => {
      const { definitions: { flags, cohorts } } = await openFlagWriter(tx, { projectId, userId, keyHash })
      if (!cohorts.some((cohort) => cohort.id === id)) throw notFound()
      const users = [
        ...flags.filter(({ filters }) => namesCohort(filters, id)).map(({ key }) => `the feature flag ${key}`),
        ...cohorts.filter(({ filters }) => namesCohort(filters, id)).map((cohort) => `the cohort ${cohort.id}`)
      ]
      if (users.length > 0) throw new HttpError(400, 'validation_error', 'has_dependents', `The cohort is used by ${users.slice(0, 10).join(', ')}.`)
      await tx`UPDATE cohorts SET deleted = true WHERE project_id = ${projectId} AND id = ${id}`
    })
    return await reply.code(204).send()
  })
}

/** @throws {HttpError} 400 for filters that cannot be evaluated. */
function refuseInvalid (check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw new HttpError(400, 'validation_error', error.code, error.message, { attr: 'filters', cause: error })
  }
}

/** Whether filters, of a flag or a cohort, have a filter on this cohort, however deep. */
function namesCohort (value: unknown, id: number): boolean {
  if (Array.isArray(value)) return value.some((item) => namesCohort(item, id))
  if (!isFields(value)) return false
  return (value['type'] === 'cohort' && Number(value['value']) === id) || Object.values(value).some((item) => namesCohort(item, id))
}
