import type { FastifyInstance } from 'fastify'
import type { KeyDirectory } from '../../../platform/directory/key-directory.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { notFound } from '../../http/answer-errors.ts'
import { optional } from '../../http/json-schema.ts'
import type { Access } from '../../http/personal-key-access.ts'
import { idParams } from '../../http/request-values.ts'
import { maskMails } from '../../people/mask-mails.ts'
import { routesOf } from '../../http/routes.ts'
import { featureFlagChangesSchema, featureFlagSchema, newFeatureFlagSchema } from './feature-flag.ts'
import { type FlagActor, flagActivitySchema, listFlagChanges } from './flag-changes.ts'
import { featureFlagQuery, findFeatureFlag, findPayload, listFeatureFlags } from './read-feature-flags.ts'
import { createFeatureFlag, updateFeatureFlag } from './write-feature-flag.ts'

const one = { $ref: 'FeatureFlag#' }

/** Management of the feature flags of a project. `/decide` and `/flags` follow a change within a second. */
export async function featureFlagRoutes (
  app: FastifyInstance, { sql, keys, publicUrl }: { sql: Sql, keys: KeyDirectory, publicUrl: string }
): Promise<void> {
  const routes = routesOf(app, { tag: 'feature flags', object: 'feature_flag', publicUrl })
  app.addSchema(featureFlagSchema)
  app.addSchema(flagActivitySchema)

  routes.list('/', {
    summary: 'List feature flags', description: 'Newest first.', query: featureFlagQuery, item: one
  }, async ({ query }, access) => await listFeatureFlags(sql, access, query))

  routes.create('/', {
    summary: 'Create a feature flag', body: newFeatureFlagSchema, answer: one
  }, async ({ body }, access) => await createFeatureFlag(sql, actorOf(access), body))

  routes.get('/:id', {
    summary: 'Retrieve a feature flag', params: idParams, answer: one
  }, async ({ params: { id } }, { projectId }) => await findFeatureFlag(sql, { projectId, id }))

  routes.list('/:id/activity', {
    summary: 'List the changes of a feature flag', params: idParams,
    description: 'Newest first, for deleted flags too: the flag after each change, and who made it. The newest 500 are kept, at most 10 MB.',
    item: { $ref: 'FeatureFlagActivity#' }
  }, async ({ params: { id }, query }, { projectId }) => await listFlagChanges(sql, { projectId, id }, query))

  routes.patch('/:id', {
    summary: 'Update a feature flag', params: idParams, body: featureFlagChangesSchema, answer: one,
    description: 'Changes the given fields and no others. With `version`, 409 `conflict` if the flag has a newer one.'
  }, async ({ params: { id }, body }, access) => await updateFeatureFlag(sql, { ...actorOf(access), id }, body))

  routes.delete('/:id', {
    summary: 'Delete a feature flag', params: idParams,
    description: 'Its key may be used again. Refused when other flags depend on it, or an experiment runs on it.'
  }, async ({ params: { id } }, access) => {
    await updateFeatureFlag(sql, { ...actorOf(access), id }, { deleted: true })
  })

  // The payload of a flag for SDKs, which name it by its key.
  routes.get('/:key/remote_config', {
    config: { errorsWithoutBody: true },
    summary: 'Retrieve the payload of a feature flag',
    description: 'For the remote configuration of SDKs. With a token, @current is the project of that key. ' +
      'Errors have no body, because SDKs would read it as the payload.',
    params: optional({ key: { type: 'string', description: 'Key of the flag.' } }),
    query: optional({ token: { type: 'string', description: 'Project API key.' } }),
    answer: { description: 'The payload: any JSON.' }
  }, async ({ params, query }, access, reply) => {
    const project = await projectOf({ ...params, ...query }, access, keys)
    const payload = await findPayload(sql, project, params.key)
    const shown = access.rightsIn(project).seesPersons ? payload : maskMails(payload)
    // Serialised here, past the hook that masks: Fastify sends a string unquoted, and SDKs parse the answer as JSON.
    return await reply.type('application/json; charset=utf-8').send(JSON.stringify(shown))
  })
}

function actorOf ({ projectId, userId, keyHash }: Access): FlagActor {
  return { projectId, userId, keyHash }
}

/** The project of the path, or that of the token which SDKs send with `@current`. */
async function projectOf (
  { project_id: project, token }: { project_id: string, token?: string },
  { projectId, projectIds }: Access, keys: KeyDirectory
): Promise<number> {
  if (token === undefined) return projectId
  const { id } = await keys.findProject(token, undefined, 'feature_flag:read')
  if (project === '@current' ? projectIds?.includes(id) === false : id !== projectId) throw notFound()
  return id
}
