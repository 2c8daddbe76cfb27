import { fastifyPlugin } from 'fastify-plugin'
import { type FastifyInstance, type FastifyRequest } from 'fastify'
import { HttpError } from '../../../platform/errors.ts'
import { type PersonalKey } from '../../keys/find-personal-key.ts'
import { type PersonalKeyDirectory } from '../../keys/personal-key-directory.ts'
import { type ProjectDirectory } from '../../keys/project-directory.ts'
import { requireScope, type Scope } from '../../../platform/scopes.ts'
import { type UserSummary } from '../../keys/user-summary.ts'
import { notFound } from '../errors/not-found.ts'
import { readPersonalKey } from './read-personal-key.ts'

/** Who asks, for which project. */
export interface Access {
  keyId: string
  user: UserSummary
  /** Project of the path; 0 on routes without one. */
  projectId: number
  /** The only projects the key opens; null opens all. */
  projectIds: number[] | null
}

declare module 'fastify' {
  interface FastifyRequest {
    access: Access | null
  }
  interface FastifyContextConfig {
    /** What the route asks of the key; every route behind `authenticatePersonalKey` names it. */
    scope?: Scope
  }
}

export interface AuthenticateOptions {
  personalKeys: PersonalKeyDirectory
  projects: ProjectDirectory
  now: () => number
}

/**
 * Lets only requests with a personal key in, for every route of the scope it is registered in.
 *
 * The key comes from `Authorization: Bearer`, the body's or the query's `personal_api_key`, in this order.
 *
 * | what is wrong | answer |
 * |---|---|
 * | no key | 401 `not_authenticated` |
 * | another scheme than Bearer, or an empty key | 401 `authentication_failed` |
 * | unknown, revoked or expired key | 401 `invalid_personal_api_key`, the detail says which |
 * | the key lacks the route's scope | 403 `permission_denied` |
 * | the project does not exist, or the key is not for it | 404 `not_found`: existence is not told |
 */
export const authenticatePersonalKey = fastifyPlugin(async (app: FastifyInstance, options: AuthenticateOptions) => {
  app.decorateRequest('access', null)

  app.addHook('onRoute', ({ config, url }) => {
    if (config?.scope === undefined) throw new Error(`route ${url} must name the scope it asks for`)
  })

  // A key in the body is known only after the body was read; every other request is turned away before that.
  app.addHook('onRequest', async (request) => {
    const key = readPersonalKey(request, 'head')
    if (key !== undefined) request.access = await authenticate(request, key, options)
  })

  app.addHook('preValidation', async (request) => {
    const key = readPersonalKey(request, 'body')
    if (request.access === null && key !== undefined) request.access = await authenticate(request, key, options)
  })
}, { name: 'authenticate-personal-key' })

/** The access of a request behind `authenticatePersonalKey`. */
export function accessOf (request: FastifyRequest): Access {
  if (request.access === null) throw new Error('the route is not behind authenticatePersonalKey')
  return request.access
}

async function authenticate (request: FastifyRequest, text: string, options: AuthenticateOptions): Promise<Access> {
  const key = await findUsableKey(text, options)
  const scope = request.routeOptions.config.scope
  if (scope !== undefined) requireScope(key.scopes, scope)
  const projectId = await resolveProject(request, key, options.projects)
  options.personalKeys.recordUse(key)
  return { keyId: key.id, user: key.user, projectId, projectIds: key.projectIds }
}

/**
 * The stored key with this text, if it may be used.
 *
 * @throws {HttpError} 401 when it is unknown, revoked or expired.
 */
export async function findUsableKey (text: string, options: Pick<AuthenticateOptions, 'personalKeys' | 'now'>): Promise<PersonalKey> {
  const key = await options.personalKeys.find(text)
  if (key === undefined) throw invalidKey('Personal API key is invalid.')
  if (key.revokedAt !== null) throw invalidKey('Personal API key was revoked.')
  if (key.expiresAt !== null && key.expiresAt.getTime() <= options.now()) throw invalidKey('Personal API key has expired.')
  return key
}

function invalidKey (detail: string): HttpError {
  return new HttpError(401, 'authentication_error', 'invalid_personal_api_key', detail)
}

async function resolveProject (request: FastifyRequest, key: PersonalKey, projects: ProjectDirectory): Promise<number> {
  const { project_id: text } = request.params as { project_id?: string }
  if (text === undefined) return 0
  const ids = (await projects.listIds()).filter((id) => key.projectIds === null || key.projectIds.includes(id))
  const found = text === '@current' ? ids[0] : ids.find((id) => String(id) === text)
  if (found === undefined) throw notFound()
  return found
}
