import type { FastifyInstance } from 'fastify'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { optional } from '../http/json-schema.ts'
import { routesOf } from '../http/routes.ts'
import { createExperiment, deleteExperiment, updateExperiment } from './change-experiment.ts'
import { experimentChangesSchema, newExperimentSchema } from './experiment-body.ts'
import { experimentQuery, experimentSchema, findExperiment, listExperiments } from './experiment.ts'

const one = { $ref: 'Experiment#' }

/** Those beyond the integers of Postgres were never given: 404. */
export const experimentIdParams = optional({ id: { type: 'integer', minimum: 1 } })

/** Experiments of a project (docs/reference/contract/service.md 4.1), without their results. */
export async function experimentRoutes (
  app: FastifyInstance, { sql, publicUrl }: { sql: Sql, publicUrl: string }
): Promise<void> {
  const routes = routesOf(app, { tag: 'experiments', object: 'experiment', publicUrl })
  app.addSchema(experimentSchema)

  routes.list('/', {
    summary: 'List experiments', description: 'Newest first.', query: experimentQuery, item: one
  }, async ({ query }, access) => await listExperiments(sql, access, query))

  routes.create('/', {
    summary: 'Create an experiment', body: newExperimentSchema, answer: one
  }, async ({ body }, { projectId, userId, keyHash }) =>
    await createExperiment(sql, { projectId, userId, keyHash }, body))

  routes.get('/:id', {
    summary: 'Retrieve an experiment', params: experimentIdParams, answer: one
  }, async ({ params: { id } }, { projectId }) => await findExperiment(sql, projectId, id))

  routes.patch('/:id', {
    summary: 'Update an experiment', params: experimentIdParams, body: experimentChangesSchema, answer: one
  }, async ({ params: { id }, body }, { projectId, userId, keyHash }) =>
    await updateExperiment(sql, { projectId, userId, keyHash, id }, body))

  routes.delete('/:id', {
    summary: 'Delete an experiment', description: 'Its flag stays.', params: experimentIdParams
  }, async ({ params: { id } }, { projectId }) => { await deleteExperiment(sql, projectId, id) })
}
