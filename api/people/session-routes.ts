import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '../../console/api-types.ts'
import { createSessions, hashToken, SESSION_MAX_MS, type Sessions } from '../../console/server/sessions.ts'
import { forbidden, HttpError, invalidField } from '../../engines/errors.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { PersonalKey } from '../../platform/directory/read-keys.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { limitRights } from '../../schema/roles.ts'
import { refuseUnstorableValues } from '../http/request-validation.ts'
import { findLogoutUrl, keepClaimsFresh, type LoginDeps } from './external-login.ts'
import { createLogIn } from './log-in.ts'
import { addressOf, writeRecord } from './record.ts'

export interface SessionDeps extends LoginDeps {
  keys: KeyDirectory
}

export const SESSION_COOKIE = 'millrace_session'

/**
 * A page of another origin cannot send it without asking us first, which we refuse: with it a request is known to come
 * from the console (https://cheatsheetseries.owasp.org, CSRF prevention, "custom request headers").
 */
export const CONSOLE_HEADER = 'millrace-console'

/** Fields of the body that say how somebody logs in; of several, the first counts. */
const WAYS = ['invitation', 'email', 'personal_api_key', 'login_link'] as const

interface LoginBody {
  personal_api_key?: string
  login_link?: string
  email?: string
  password?: string
  invitation?: string
  first_name?: string
}

const text = { type: 'string', maxLength: 200 } as const
/** As long as NIST SP 800-63B asks where a password is not the only factor of many. */
export const passwordSchema = { ...text, minLength: 10 } as const
const loginBodySchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    personal_api_key: text, login_link: text, email: { ...text, maxLength: 254 }, password: passwordSchema,
    invitation: text, first_name: { ...text, maxLength: 150 }
  },
  dependencies: { email: ['password'], invitation: ['password'], first_name: ['invitation'] }
}

/** Login, logout, and who is logged in, for the console alone. */
export async function sessionRoutes (app: FastifyInstance, deps: SessionDeps): Promise<void> {
  const { sql } = deps
  const [sessions, logIn] = [createSessions(deps), createLogIn(deps)]
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    refuseForeign(request)
  })
  // The record could not hold them, and an attempt would leave no line.
  app.addHook('preValidation', refuseUnstorableValues)

  app.post<{ Body: LoginBody }>('/console/session', { schema: { hide: true, body: loginBodySchema } }, async (request, reply) => {
    const [way = '', address] = [WAYS.find((field) => field in request.body), addressOf(request)]
    const token = await beginSession(request, deps, { sessions, logIn }).catch(async (error: unknown) => {
      const detail = { email: request.body.email }
      if (error instanceof HttpError && error.status === 401) await writeRecord(sql, { kind: 'refusal', object: way, address, detail })
      throw error
    })
    // The session of before, if any, is not continued: nobody can plant a cookie and share what follows.
    await endSession(request, sessions)
    const key = await sessionKeyOf(request, token, deps)
    await writeRecord(sql, { kind: 'login', object: way, userId: key.owner?.userId ?? null, keyHash: key.hash, address })
    setCookie(request, reply, token, deps)
    return await describeSession(key, sql)
  })

  // That nobody is logged in is an answer: a browser writes each 401 to its console as an error.
  app.get('/console/session', { schema: { hide: true } }, async (request, reply) => {
    const key = await findSessionKey(request, deps).catch((error: unknown) => {
      if (error instanceof HttpError && error.status === 401) return null
      throw error
    })
    return key === null ? await reply.code(204).send() : await describeSession(key, sql)
  })

  app.delete('/console/session', { schema: { hide: true } }, async (request, reply) => {
    const key = await findSessionKey(request, deps).catch(() => null)
    if (key !== null) await writeRecord(sql, { kind: 'logout', object: 'session', userId: key.owner?.userId ?? null, keyHash: key.hash, address: addressOf(request) })
    const token = request.cookies[SESSION_COOKIE] ?? ''
    const found = await sessions.find(token)
    const url = found?.keyHash === null ? await findLogoutUrl(request, found, token, deps) : null
    await endSession(request, sessions)
    reply.clearCookie(SESSION_COOKIE, { path: '/' })
    return url === null ? await reply.code(204).send() : { logout_url: url }
  })
}

/** @returns the token of a new session. @throws {HttpError} 400 or 401, 429 after too many wrong passwords. */
async function beginSession (
  request: FastifyRequest<{ Body: LoginBody }>, { keys, sql }: SessionDeps,
  { sessions, logIn }: { sessions: Sessions, logIn: ReturnType<typeof createLogIn> }
): Promise<string> {
  const { personal_api_key: key, login_link: link, email, password = '', invitation, first_name: firstName } = request.body
  if (invitation !== undefined || email !== undefined) {
    const { userId, hash } = invitation === undefined
      ? await logIn.byPassword({ email: email ?? '', password, address: addressOf(request) })
      : await logIn.byInvitation({ token: invitation, password, firstName, address: addressOf(request) })
    await sql`UPDATE users SET last_login_at = now() WHERE id = ${userId}`
    return await sessions.beginOfUser(userId, hash)
  }
  if (key === undefined && link === undefined) throw invalidField('personal_api_key', 'personal_api_key is required.', 'required')
  return await logIn.limit(addressOf(request), async () => {
    const token = key === undefined ? await sessions.redeem(link ?? '') : await sessions.begin((await keys.findPersonalKey(key.trim())).hash)
    if (token !== null) return token
    throw new HttpError(401, 'authentication_error', 'authentication_failed', link === undefined
      ? 'The key was deleted.'
      : 'This link was already used or has expired. Log in with a personal API key.')
  })
}

/**
 * The personal key of the session of a request.
 *
 * @returns null when the request has no session cookie, or does not come from the console.
 * @throws {HttpError} 401 when the session has ended or its key is no longer valid.
 */
export async function findSessionKey (request: FastifyRequest, deps: SessionDeps): Promise<PersonalKey | null> {
  const token = request.cookies[SESSION_COOKIE]
  if (token === undefined || request.headers[CONSOLE_HEADER] === undefined) return null
  refuseForeign(request)
  return await sessionKeyOf(request, token, deps)
}

async function sessionKeyOf (request: FastifyRequest, token: string, deps: SessionDeps): Promise<PersonalKey> {
  const sessions = createSessions(deps)
  let found = await sessions.find(token)
  if (found?.keyHash === null && found.issuer !== null && found.claimsReadAt !== null) {
    found = await keepClaimsFresh(request, found, token, deps) ? await sessions.find(token) : null
  }
  if (found === null) throw new HttpError(401, 'authentication_error', 'not_authenticated', 'Log in first.')
  if (found.keyHash !== null) return await deps.keys.findPersonalKeyByHash(found.keyHash)
  const { userId, roles } = found
  return {
    hash: hashToken(token), isSession: true, scopes: ['*'], projectIds: null, limits: [roles ?? []],
    expiresAt: Infinity, isRevoked: false, owner: { userId, lastUsedAt: null }
  }
}

/** Refuses what a page of another origin sends, the same host on another port included. */
function refuseForeign ({ method, headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site']
  const isForeign = site !== undefined && site !== 'same-origin' && site !== 'none'
  const isMarked = method === 'GET' || headers[CONSOLE_HEADER] !== undefined
  if (isForeign || !isMarked) {
    throw forbidden('Only the console itself may send this request.')
  }
}

async function endSession (request: FastifyRequest, sessions: Sessions): Promise<void> {
  const token = request.cookies[SESSION_COOKIE]
  if (token !== undefined) await sessions.end(token)
}

export function setCookie (
  request: FastifyRequest, reply: FastifyReply, token: string, { publicUrl }: Pick<SessionDeps, 'publicUrl'>
): void {
  reply.setCookie(SESSION_COOKIE, token, {
    // The management API is below the same root.
    path: '/',
    httpOnly: true,
    sameSite: 'strict',
    secure: isOverTls(request, publicUrl),
    maxAge: SESSION_MAX_MS / 1000
  })
}

/** Ingest sets the header, from what a trusted proxy says; without one, the public URL says what people use. */
export function isOverTls ({ protocol, headers }: FastifyRequest, publicUrl: string): boolean {
  return protocol === 'https' || headers['x-forwarded-proto'] === 'https' || publicUrl.startsWith('https:')
}

async function describeSession ({ owner, ...key }: PersonalKey, sql: Sql): Promise<Session> {
  const { scopes, projectIds, seesPersons } = limitRights(key, null)
  const [user] = await sql<{ email: string, first_name: string, login: 'password' | 'provider' }[]>`
    SELECT email, first_name, CASE WHEN password_hash IS NULL THEN 'provider' ELSE 'password' END AS login FROM users WHERE id = ${owner?.userId ?? 0}`
  const projects = await sql<Omit<Session['projects'][number], 'scopes'>[]>`
    SELECT id, name, timezone, week_starts FROM projects WHERE ${projectIds === null ? sql`true` : sql`id = ANY(${[...projectIds]}::integer[])`} ORDER BY id`
  return {
    email: user?.email ?? '', first_name: user?.first_name ?? '', login: key.isSession === true ? user?.login ?? 'key' : 'key', scopes, all_projects: projectIds === null, sees_persons: seesPersons,
    projects: projects.map((each) => ({ ...each, scopes: limitRights(key, each.id).scopes }))
  }
}
