import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { fieldsOf } from '../../../engines/fields.ts'
import { hasEntityTag } from '../../../engines/body/entity-tag.ts'
import { forbidden } from '../../../engines/errors.ts'
import { requireRight } from '../../../schema/roles.ts'
import { requireScope } from '../../../schema/scopes.ts'
import { readPersonalKey } from '../../http/personal-key-access.ts'
import { object, optional } from '../../http/json-schema.ts'
import type { FlagSet } from '../../../engines/flags/evaluate-flags.ts'
import { resolveProject, type ResolveProjectDeps } from './resolve-project.ts'
import { describeForSdk } from './local-evaluation-definitions.ts'

interface LocalEvaluation {
  json: string
  /** Weak: equal definitions have the same one in every process. */
  etag: string
}

/** Definitions for SDKs that evaluate locally, on today's path and the older one. */
export async function localEvaluationRoutes (app: FastifyInstance, deps: ResolveProjectDeps): Promise<void> {
  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const projectId = await authorise(request, deps)
    const query = fieldsOf(request.query)
    const withCohorts = 'send_cohorts' in query && query.send_cohorts !== 'false' && query.send_cohorts !== '0'
    const { json, etag } = renderLocalEvaluation(deps.definitions.get(projectId), withCohorts)
    reply.header('etag', etag).header('cache-control', 'private, must-revalidate')
    if (hasEntityTag(request.headers['if-none-match'], etag)) return await reply.code(304).send()
    return await reply.header('content-type', 'application/json; charset=utf-8').send(json)
  }
  const schema = {
    tags: ['evaluation of feature flags'],
    summary: 'Definitions for SDKs that evaluate locally',
    description: 'Requires a personal key as bearer and the project API key as query parameter token.'
  }
  app.get('/flags/definitions', { schema, config: { described: DESCRIBED } }, answer)
  app.get('/api/feature_flag/local_evaluation', { schema: { hide: true } }, answer)
}

/** For the OpenAPI document only: answers are rendered in advance. */
const DESCRIBED = {
  security: [{ personalApiKey: [] }],
  querystring: optional({
    token: { type: 'string', description: 'Project API key of the project.' },
    send_cohorts: { type: 'string', description: 'Add the cohorts, for SDKs that can evaluate them.' }
  }),
  response: {
    200: object({
      flags: { type: 'array', items: { type: 'object', required: ['id', 'key', 'filters', 'active'], additionalProperties: true } },
      group_type_mapping: { type: 'object', additionalProperties: { type: 'string' } },
      cohorts: { type: 'object', additionalProperties: true }
    }, { description: 'The definitions. The header etag identifies their version.' }),
    304: { type: 'null', description: 'Unchanged since the version in if-none-match.' }
  }
}

/**
 * Checks the personal key and finds the project: that of the query parameter `token` or, from posthog-rs, of the header
 * `X-PostHog-Project-Api-Key`, else the only one of the key.
 *
 * @throws {HttpError} 401, 403 or 400 as for every request with a personal key.
 */
async function authorise (request: FastifyRequest, deps: ResolveProjectDeps): Promise<number> {
  const text = readPersonalKey(request)
  const key = await deps.keys.findPersonalKey(text)
  requireScope(key.scopes, 'feature_flag:read')
  const { project_id: projectId, ...query } = fieldsOf(request.query)
  const token = query.token ?? request.headers['x-posthog-project-api-key']
  const found = token === undefined
    ? await resolveProject(text, projectId, deps)
    // A parameter that is given twice is an array, and not a key.
    : await resolveProject(typeof token === 'string' ? token : null, undefined, deps)
  if (key.projectIds?.includes(found) === false) throw forbidden('The API key may not read this project.')
  const { seesPersons } = requireRight(key, found, 'feature_flag:read')
  // Conditions name persons; with masked ones an SDK would decide otherwise.
  if (!seesPersons) throw forbidden('Definitions of flags name persons, which the owner of the API key does not see.')
  return found
}

/**
 * Renders the definitions. Cached for each set of flags, because SDKs poll every 30 s.
 *
 * @param withCohorts  Add the cohorts, for SDKs that can evaluate them.
 */
function renderLocalEvaluation (set: FlagSet, withCohorts: boolean): LocalEvaluation {
  const rendered = renderedBySet.get(set) ?? {}
  renderedBySet.set(set, rendered)
  return (rendered[withCohorts ? 'with' : 'without'] ??= render(set, withCohorts))
}

const renderedBySet = new WeakMap<FlagSet, Partial<Record<'with' | 'without', LocalEvaluation>>>()

function render (set: FlagSet, withCohorts: boolean): LocalEvaluation {
  const json = JSON.stringify(describeForSdk(set, withCohorts))
  return { json, etag: `W/"${createHash('sha256').update(json).digest('base64url').slice(0, 27)}"` }
}
