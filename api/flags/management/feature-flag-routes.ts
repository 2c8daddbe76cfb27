import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { KeyDirectory } from '../../../platform/directory/key-directory.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { cursorQueryProperties, searchQueryProperties } from '../../http/list-queries.ts'
import { notFound } from '../../http/errors.ts'
import { buildPage, pageQueryProperties, type PageQuery, pageSchema } from '../../http/pagination.ts'
import { type FeatureFlagChange, featureFlagChangesSchema, featureFlagSchema, type NewFeatureFlag, newFeatureFlagSchema } from './feature-flag.ts'
import { type FlagActor, flagActivityQuery, flagActivitySchema, listFlagChanges } from './flag-changes.ts'
import { type FeatureFlagQuery, findFeatureFlag, findPayload, listFeatureFlags } from './read-feature-flags.ts'
import { createFeatureFlag, updateFeatureFlag } from './write-feature-flag.ts'

const read = { scope: 'feature_flag:read' } as const
const write = { scope: 'feature_flag:write' } as const
const tags = ['feature flags']
const one = { $ref: 'FeatureFlag#' }

/** Up to the largest id of the column. */
const idParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } as const

interface FlagParams {
  Params: { project_id: string, id: number }
}

const listQuery = {
  type: 'object',
  properties: {
    ...pageQueryProperties,
    ...searchQueryProperties,
    active: {
      type: 'boolean', description: 'true: only active flags; false: only inactive ones. Default: all.'
    },
    ...cursorQueryProperties
  }
}

/** Management of the feature flags of a project. `/decide` and `/flags` follow a change within a second. */
export async function featureFlagRoutes (
  app: FastifyInstance,
  deps: { sql: Sql, keys: KeyDirectory, publicUrl: string }
): Promise<void> {
  const { sql } = deps
  app.addSchema(featureFlagSchema)
  app.addSchema(flagActivitySchema)

  app.get<{ Querystring: FeatureFlagQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List feature flags', description: 'Newest first.', querystring: listQuery,
      response: { 200: pageSchema(one) }
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    return buildPage(request, deps.publicUrl, await listFeatureFlags(sql, projectId, request.query))
  })

  app.post<{ Body: NewFeatureFlag }>('/', {
    config: write,
    schema: { tags, summary: 'Create a feature flag', body: newFeatureFlagSchema, response: { 201: one } }
  }, async (request, reply) => {
    return await reply.code(201).send(await createFeatureFlag(sql, actorOf(request), request.body))
  })

  app.get<FlagParams>('/:id', {
    config: read,
    schema: { tags, summary: 'Retrieve a feature flag', params: idParams, response: { 200: one } }
  }, async (request) => await findFeatureFlag(sql, flagOf(request)))

  app.get<FlagParams & { Querystring: PageQuery & { after?: string } }>('/:id/activity', {
    config: read,
    schema: {
      tags, summary: 'List the changes of a feature flag', params: idParams, querystring: flagActivityQuery,
      description: 'Newest first, for deleted flags too: the flag after each change, and who made it. The newest 500 are kept.',
      response: { 200: pageSchema({ $ref: 'FeatureFlagActivity#' }) }
    }
  }, async (request) => {
    return buildPage(request, deps.publicUrl, await listFlagChanges(sql, flagOf(request), request.query))
  })

  app.patch<FlagParams & { Body: FeatureFlagChange }>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Update a feature flag', params: idParams, body: featureFlagChangesSchema, response: { 200: one },
      description: 'Changes the given fields and no others. With `version`, 409 `conflict` if the flag has a newer one.'
    }
  }, async (request) => await updateFeatureFlag(sql, { ...actorOf(request), id: request.params.id }, request.body))

  app.delete<FlagParams>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete a feature flag', params: idParams,
      description: 'Its key may be used again. Refused when other flags depend on it, or an experiment runs on it.',
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await updateFeatureFlag(sql, { ...actorOf(request), id: request.params.id }, { deleted: true })
    return await reply.code(204).send()
  })

  remoteConfigRoute(app, deps)
}

/** The payload of a flag for SDKs, which name it by its key. */
function remoteConfigRoute (app: FastifyInstance, { sql, keys }: { sql: Sql, keys: KeyDirectory }): void {
  app.get<{ Params: { key: string }, Querystring: { token?: string } }>('/:key/remote_config', {
    config: { ...read, errorsWithoutBody: true },
    schema: {
      tags, summary: 'Retrieve the payload of a feature flag',
      description: 'For the remote configuration of SDKs. With a token, @current is the project of that key. ' +
        'Errors have no body, because SDKs would take it for the payload.',
      params: { type: 'object', properties: { key: { type: 'string', description: 'Key of the flag.' } } },
      querystring: { type: 'object', properties: { token: { type: 'string', description: 'Project API key.' } } },
      response: { 200: { description: 'The payload: any JSON.' } }
    }
  }, async (request, reply) => {
    const payload = await findPayload(sql, await projectOf(request, keys), request.params.key)
    // Serialised here: Fastify sends a string unquoted, and SDKs parse the answer as JSON.
    return await reply.type('application/json; charset=utf-8').send(JSON.stringify(payload))
  })
}

function flagOf (request: FastifyRequest<FlagParams>): { projectId: number, id: number } {
  return { projectId: accessOf(request).projectId, id: request.params.id }
}

function actorOf (request: FastifyRequest<any>): FlagActor {
  const { projectId, userId, keyHash } = accessOf(request)
  return { projectId, userId, keyHash }
}

/** The project of the path, or that of the token which SDKs send with `@current`. */
async function projectOf (request: FastifyRequest, keys: KeyDirectory): Promise<number> {
  const { projectId, projectIds } = accessOf(request)
  const { token } = request.query as { token?: string }
  if (token === undefined) return projectId
  const { id } = await keys.findProject(token, undefined, 'feature_flag:read')
  const isCurrent = (request.params as { project_id: string }).project_id === '@current'
  if (isCurrent ? projectIds?.includes(id) === false : id !== projectId) throw notFound()
  return id
}
