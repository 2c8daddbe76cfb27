import type { FastifyInstance } from 'fastify'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { array, object } from '../../http/json-schema.ts'

/** Cohorts listed at most. */
const MAX_COHORTS = 10_000

const cohortsSchema = object({
  results: array(object({ id: { type: 'integer' }, name: { type: 'string' } }))
})

/** The cohorts that conditions of flags may name. */
export async function cohortRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  app.get('/', {
    config: { scope: 'feature_flag:read' },
    schema: {
      tags: ['feature flags'], summary: 'List cohorts', description: `By name, at most ${MAX_COHORTS}.`, response: { 200: cohortsSchema }
    }
  }, async (request) => {
    const results = await sql`
      SELECT id, name FROM cohorts WHERE project_id = ${accessOf(request).projectId} AND NOT deleted
      ORDER BY lower(name), id LIMIT ${MAX_COHORTS}`
    return { results }
  })
}
