import { createHash } from 'node:crypto'
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { HttpError } from '../../platform/errors.ts'
import { requireScope } from '../../platform/scopes.ts'
import { findUsableKey, readPersonalKey } from '../http/personal-key-access.ts'
import { notFound } from '../http/errors.ts'
import { type FlagSet } from '../flag-evaluation/evaluate-flags.ts'
import { resolveProject, type ResolveProjectDeps } from './resolve-project.ts'
import { describeForSdk } from './local-evaluation-definitions.ts'

/** The definitions of a project as SDKs that evaluate locally want them. */
interface LocalEvaluation {
  json: string
  /** Weak: equal definitions have equal ones, on every process. */
  etag: string
}

/** Definitions for SDKs that evaluate locally, under the name of today and the older one. */
export async function localEvaluationRoutes (app: FastifyInstance, deps: ResolveProjectDeps): Promise<void> {
  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const projectId = await authorise(request, deps)
    const query = request.query as Record<string, unknown>
    const withCohorts = 'send_cohorts' in query && query.send_cohorts !== 'false' && query.send_cohorts !== '0'
    const { json, etag } = renderLocalEvaluation(deps.definitions.get(projectId), withCohorts)
    reply.header('etag', etag).header('cache-control', 'private, must-revalidate')
    if (isKnown(request.headers['if-none-match'], etag)) return await reply.code(304).send()
    return await reply.header('content-type', 'application/json; charset=utf-8').send(json)
  }
  const schema = {
    tags: ['evaluation of feature flags'],
    summary: 'Definitions for SDKs that evaluate locally',
    description: 'With a personal key as bearer, and the project API key as query parameter token.'
  }
  app.get('/flags/definitions', { schema, config: { described: DESCRIBED } }, answer)
  app.get('/api/feature_flag/local_evaluation', { schema: { hide: true } }, answer)
}

/** For the OpenAPI document only: the answer was rendered before. */
const DESCRIBED = {
  security: [{ personalApiKey: [] }],
  querystring: {
    type: 'object',
    properties: {
      token: { type: 'string', description: 'Project API key: whose flags.' },
      send_cohorts: { type: 'string', description: 'Send cohorts beside the flags, for SDKs that can evaluate them.' }
    }
  },
  response: {
    200: {
      description: 'The definitions; the header etag names their version.',
      type: 'object',
      required: ['flags', 'group_type_mapping', 'cohorts'],
      properties: {
        flags: { type: 'array', items: { type: 'object', required: ['id', 'key', 'filters', 'active'], additionalProperties: true } },
        group_type_mapping: { type: 'object', additionalProperties: { type: 'string' } },
        cohorts: { type: 'object', additionalProperties: true }
      }
    },
    304: { type: 'null', description: 'They are those of if-none-match.' }
  }
}

/**
 * Checks the personal key and finds the project: the one of the `token` in the query, else the only one of the key.
 *
 * @throws {HttpError} 401, 403 or 400 as for every request with a personal key.
 */
async function authorise (request: FastifyRequest, deps: ResolveProjectDeps): Promise<number> {
  const text = readPersonalKey(request, 'head')
  if (text === undefined) throw notFound()
  const key = await findUsableKey(text, deps)
  requireScope(key.scopes, 'feature_flag:read')
  const { token, project_id: projectId } = request.query as { token?: unknown, project_id?: unknown }
  if (token === undefined) return await resolveProject(text, projectId, deps)
  // Named twice it is a list, and no key.
  const found = await resolveProject(typeof token === 'string' ? token : null, undefined, deps)
  if (key.projectIds !== null && !key.projectIds.includes(found)) {
    throw new HttpError(403, 'authentication_error', 'permission_denied', 'The API key may not read this project.')
  }
  return found
}

/** Weak comparison: proxies may add or take the W. */
function isKnown (header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  const bare = etag.replace(/^W\//, '')
  return header.split(',').some((candidate) => candidate.trim() === '*' || candidate.trim().replace(/^W\//, '') === bare)
}

/**
 * Renders the definitions; once for each set of flags, because SDKs ask every 30 s.
 *
 * @param withCohorts  Send cohorts beside the flags, for SDKs that can evaluate them.
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
