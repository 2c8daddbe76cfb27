import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { fieldsOf } from '../../engines/fields.ts'
import { forbidden, HttpError } from '../../engines/errors.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { PersonalKey } from '../../platform/directory/read-keys.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type Limited, limitRights, maySql, requireRight, type Rights } from '../../schema/roles.ts'
import { requireScope, type Scope } from '../../schema/scopes.ts'
import { recordKeyUse } from '../projects/personal-keys.ts'
import { notFound } from './answer-errors.ts'
import { parseInteger } from './request-values.ts'

/** Who sends a request, and for which project. */
export interface Access extends Rights, Pick<Limited, 'limits'> {
  /** Of the personal key, or of the session of a user. */
  keyHash: string
  /** True: a user has logged in without a key. */
  isSession: boolean
  userId: number
  /** Project of the path; 0 on routes without one. */
  projectId: number
  /** Whether it may run SQL, which reads persons of all projects, and let others see its answers. */
  maySql: boolean
  /** @throws {HttpError} 403 when it may not do this. */
  requireScope: (wanted: Scope) => void
  /** What the same key or session may do in a project. */
  rightsIn: (projectId: number) => Rights
  /** Checks again that the key, or the session, may do this, for an answer that goes on. @throws like a new request. */
  recheck: () => Promise<void>
}

declare module 'fastify' {
  interface FastifyRequest {
    access: Access | null
  }
  interface FastifyContextConfig {
    /** The scope that the route requires; every route behind `authenticatePersonalKey` declares one. */
    scope?: Scope | '*'
    /** An answer that goes on until its client leaves, and ends then: it is not measured. */
    isEndless?: boolean
  }
}

export interface AuthenticateOptions {
  keys: KeyDirectory
  sql: Sql
  /** Epoch milliseconds. */
  now: () => number
  /** The key of a session of the console; null when the request has none. */
  findSessionKey: (request: FastifyRequest) => Promise<PersonalKey | null>
}

/**
 * Requires a personal key, on every route of the Fastify scope in which it is registered.
 *
 * The key comes from `Authorization: Bearer`, a session of the console, the body's or the query's `personal_api_key`,
 * in this order.
 *
 * | problem | answer |
 * |---|---|
 * | no key | 401 `not_authenticated` |
 * | another scheme than Bearer, or an empty key | 401 `authentication_failed` |
 * | unknown, revoked or expired key | 401 `invalid_personal_api_key`, the detail says which |
 * | the key lacks the route's scope | 403 `permission_denied` |
 * | the project does not exist, or the key is not for it | 404 `not_found`: existence is not disclosed |
 * | the key is not known, and Postgres does not answer | 503 `fetch_team_fail` |
 */
export const authenticatePersonalKey = fastifyPlugin(async (app: FastifyInstance, options: AuthenticateOptions) => {
  app.decorateRequest('access', null)

  app.addHook('onRoute', ({ config, url }) => {
    if (config?.scope === undefined) throw new Error(`route ${url} must declare the scope it requires`)
  })

  // A key in the body is known only after reading the body; all other requests are refused before.
  app.addHook('onRequest', async (request, reply) => {
    const session = request.headers.authorization === undefined ? await options.findSessionKey(request) : null
    if (session !== null) {
      reply.header('cache-control', 'no-store')
      const findAgain = async (): Promise<PersonalKey | null> => await options.findSessionKey(request)
      request.access = await grant(request, { key: session, findAgain }, options)
      return
    }
    if (request.headers.authorization === undefined && METHODS_WITH_BODY.has(request.method)) return
    request.access = await authenticate(request, readPersonalKey(request), options)
  })

  app.addHook('preValidation', async (request) => {
    request.access ??= await authenticate(request, readPersonalKey(request), options)
  })
}, { name: 'authenticate-personal-key' })

/** The access of a request behind `authenticatePersonalKey`. */
export function accessOf (request: FastifyRequest): Access {
  if (request.access === null) throw new Error('the route is not behind authenticatePersonalKey')
  return request.access
}

/** @throws {HttpError} 403 for a key or a user limited to some projects. */
export function requireAllProjects ({ projectIds, isSession }: Access): void {
  if (projectIds === null) return
  throw forbidden(`This route is about the whole installation, and your ${isSession ? 'role' : 'key'} is limited to some projects.`)
}

/** @throws {HttpError} 403 for a key of some projects, and for roles that do not see persons of all projects. */
export function requireSql (access: Access): void {
  requireAllProjects(access)
  if (!access.maySql) throw forbidden('SQL reads persons, which your role does not see.')
}

async function authenticate (request: FastifyRequest, text: string, options: AuthenticateOptions): Promise<Access> {
  const find = async (): Promise<PersonalKey> => await options.keys.findPersonalKey(text)
  return await grant(request, { key: await find(), findAgain: find }, options)
}

/** A key, and how to find it later: null when its session has ended. */
interface FoundKey { key: PersonalKey, findAgain: () => Promise<PersonalKey | null> }

async function grant (
  request: FastifyRequest, { key, findAgain }: FoundKey, options: AuthenticateOptions
): Promise<Access> {
  const { hash, owner, limits, isSession = false } = key
  if (owner === null) throw new Error('the keys were read without their owners')
  const scope = request.routeOptions.config.scope
  // What the key does not say is refused whether or not there is such a project.
  if (scope !== undefined) requireScope(key.scopes, scope)
  const projectId = await resolveProject(request, limitRights(key, null), options.keys)
  const place = projectId === 0 ? null : projectId
  const rights = scope === undefined ? limitRights(key, place) : requireRight(key, place, scope)
  if (!isSession) recordKeyUse(options.sql, { hash, owner, now: options.now() })
  return {
    ...rights, keyHash: hash, isSession, userId: owner.userId, projectId, limits, maySql: maySql(key),
    requireScope: (wanted) => { requireRight(key, place, wanted) },
    rightsIn: (id) => limitRights(key, id),
    async recheck () {
      const found = await findAgain()
      if (found === null) throw notAuthenticated()
      await grant(request, { key: found, findAgain }, options)
    }
  }
}

function notAuthenticated (): HttpError {
  return new HttpError(401, 'authentication_error', 'not_authenticated', 'Authentication credentials were not provided.')
}

async function resolveProject (request: FastifyRequest, { projectIds }: Rights, keys: KeyDirectory): Promise<number> {
  const { project_id: text } = request.params as { project_id?: string }
  if (text === undefined) return 0
  const isOpen = (id: number): boolean => projectIds === null || projectIds.includes(id)
  const id = text === '@current' ? keys.projectIds().find(isOpen) : parseInteger(text)
  if (id === undefined || !isOpen(id) || !await keys.hasProject(id)) throw notFound()
  return id
}

const BEARER = /^Bearer +(\S+)\s*$/i

const METHODS_WITH_BODY = new Set(['POST', 'PUT', 'PATCH'])

/**
 * Finds the personal key of a request: header, then body, then query. One in the body is taken out of it, so that
 * routes see only their own fields.
 *
 * @throws {HttpError} 401 when the request has no key, or the header is not `Bearer <key>`.
 */
export function readPersonalKey ({ headers: { authorization }, body, query }: FastifyRequest): string {
  if (authorization !== undefined) {
    const key = BEARER.exec(authorization)?.[1]
    if (key !== undefined) return key
    throw new HttpError(401, 'authentication_error', 'authentication_failed',
      'The Authorization header must be "Bearer <personal API key>".')
  }
  const inBody = fieldsOf(body)['personal_api_key']
  if (inBody !== undefined) Reflect.deleteProperty(Object(body), 'personal_api_key')
  const key = inBody ?? fieldsOf(query)['personal_api_key']
  if (typeof key === 'string' && key !== '') return key
  throw notAuthenticated()
}

/**
 * Limits the requests of each personal key, so that a runaway script cannot overload the API for all others. Answers
 * have `x-ratelimit-limit`, `-remaining` and `-reset` (seconds); above the limit 429 with `retry-after`.
 *
 * @param options.maxPerMinute  Requests of a key in this process; 0 for no limit.
 */
export const limitRate = fastifyPlugin(async (app: FastifyInstance, { maxPerMinute }: { maxPerMinute: number }) => {
  if (maxPerMinute === 0) return
  await app.register(rateLimit, {
    // After authentication, because the limit is per key and not per address.
    hook: 'preValidation',
    max: maxPerMinute,
    timeWindow: 60_000,
    keyGenerator: (request) => accessOf(request).keyHash,
    errorResponseBuilder: (_, { ttl }) => new HttpError(429, 'throttled_error', 'throttled',
      `Request was throttled. Expected available in ${Math.ceil(ttl / 1000)} seconds.`)
  })
}, { name: 'limit-rate' })
