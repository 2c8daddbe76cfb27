import type { FastifyInstance } from 'fastify'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { cursorQueryProperties, searchQueryProperties } from '../http/list-queries.ts'
import { buildPage, pageQueryProperties, pageSchema } from '../http/pagination.ts'
import { createExperiment, deleteExperiment, updateExperiment } from './change-experiment.ts'
import {
  experimentChangesSchema, newExperimentSchema, type ExperimentFields, type NewExperiment
} from './experiment-body.ts'
import { type ExperimentQuery, experimentSchema, findExperiment, listExperiments } from './experiment.ts'

const read = { scope: 'experiment:read' } as const
const write = { scope: 'experiment:write' } as const
const tags = ['experiments']
const one = { $ref: 'Experiment#' }

export const experimentIdParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1 } } } as const

export interface ExperimentParams {
  Params: { project_id: string, id: number }
}

const listQuery = {
  type: 'object',
  properties: {
    ...pageQueryProperties,
    ...searchQueryProperties,
    archived: { type: 'boolean', description: 'true: only archived ones; false: only the others. Default: both.' },
    ...cursorQueryProperties
  }
}

/** Experiments of a project (docs/reference/contract/service.md 4.1), without their results. */
export async function experimentRoutes (app: FastifyInstance, deps: { sql: Sql, publicUrl: string }): Promise<void> {
  const { sql } = deps
  app.addSchema(experimentSchema)

  app.get<{ Querystring: ExperimentQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List experiments', description: 'Newest first.', querystring: listQuery,
      response: { 200: pageSchema(one) }
    }
  }, async (request) => {
    return buildPage(request, deps.publicUrl, await listExperiments(sql, accessOf(request).projectId, request.query))
  })

  app.post<{ Body: NewExperiment }>('/', {
    config: write,
    schema: { tags, summary: 'Create an experiment', body: newExperimentSchema, response: { 201: one } }
  }, async (request, reply) => {
    const { projectId, userId, keyHash } = accessOf(request)
    const experiment = await createExperiment(sql, { projectId, userId, keyHash }, request.body)
    return await reply.code(201).send(experiment)
  })

  app.get<ExperimentParams>('/:id', {
    config: read,
    schema: { tags, summary: 'Retrieve an experiment', params: experimentIdParams, response: { 200: one } }
  }, async (request) => await findExperiment(sql, accessOf(request).projectId, request.params.id))

  app.patch<ExperimentParams & { Body: ExperimentFields }>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Update an experiment', params: experimentIdParams, body: experimentChangesSchema,
      response: { 200: one }
    }
  }, async (request) => {
    const { projectId, userId, keyHash } = accessOf(request)
    return await updateExperiment(sql, { projectId, userId, keyHash, id: request.params.id }, request.body)
  })

  app.delete<ExperimentParams>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete an experiment', description: 'Its flag stays.', params: experimentIdParams,
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await deleteExperiment(sql, accessOf(request).projectId, request.params.id)
    return await reply.code(204).send()
  })
}
