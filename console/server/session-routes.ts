import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { forbidden, HttpError, invalidField } from '../../engines/errors.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { PersonalKey } from '../../platform/directory/read-keys.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { limitRights } from '../../schema/roles.ts'
import type { Session } from '../api-types.ts'
import { hashToken, SESSION_MAX_MS, type Sessions, type SessionUser } from './sessions.ts'

export interface SessionOptions {
  sql: Sql
  keys: KeyDirectory
  sessions: Sessions
  logIn: LogIn
  /** Base URL that people use; empty: any. */
  publicUrl: string
  record: (line: LoginLine) => Promise<unknown>
  /** Whether whoever logged the user in still does; reads what they may do again when that is old. */
  keepFresh: (request: FastifyRequest, found: SessionUser, token: string) => Promise<boolean>
  /** Where to log out there as well; null without it. */
  findLogoutUrl: (request: FastifyRequest, found: SessionUser, token: string) => Promise<string | null>
}

interface From { address: string }
interface NewPassword extends From { userId: number, session: string, current: string, password: string }

export interface LoginLine {
  kind: 'login' | 'logout' | 'refusal'
  /** How: by password, key, link, ... */
  object: string
  userId?: number | null
  keyHash?: string
  address: string
  detail?: object
}

/** A user, and the hash of the password that was right. */
interface Known { userId: number, hash: string }

/** How people log in without a key. */
export interface LogIn {
  /** @throws {HttpError} 401 whatever is wrong, 429 after too many attempts. */
  byPassword: (given: { email: string, password: string } & From) => Promise<Known>
  /** Sets the password of whoever was invited. @throws {HttpError} 401 for a link that is used or too old. */
  byInvitation: (given: { token: string, password: string, firstName: string | undefined } & From) => Promise<Known>
  /** Ends all sessions but that with this hash. @throws {HttpError} 400 for a wrong password or none, 429. */
  changePassword: (given: NewPassword) => Promise<void>
  /** Runs an attempt to log in otherwise, unless too many from that address were refused. @throws {HttpError} 429. */
  limit: <T>(address: string, attempt: () => Promise<T>) => Promise<T>
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

/** Login, logout, and who is logged in. */
export async function sessionRoutes (app: FastifyInstance, options: SessionOptions): Promise<void> {
  const { sql, sessions, record } = options
  app.post<{ Body: LoginBody }>('/console/session', { schema: { hide: true, body: loginBodySchema } }, async (request, reply) => {
    const [way = '', address] = [WAYS.find((field) => field in request.body), addressOf(request)]
    const token = await beginSession(request, options).catch(async (error: unknown) => {
      const detail = { email: request.body.email }
      if (error instanceof HttpError && error.status === 401) await record({ kind: 'refusal', object: way, address, detail })
      throw error
    })
    // The session of before, if any, is not continued: nobody can plant a cookie and share what follows.
    await endSession(request, sessions)
    const key = await sessionKeyOf(request, token, options)
    await record({ kind: 'login', object: way, userId: key.owner?.userId ?? null, keyHash: key.hash, address })
    setCookie(request, reply, token, options)
    return await describeSession(key, sql)
  })

  // That nobody is logged in is an answer: a browser writes each 401 to its console as an error.
  app.get('/console/session', { schema: { hide: true } }, async (request, reply) => {
    const key = await findSessionKey(request, options).catch((error: unknown) => {
      if (error instanceof HttpError && error.status === 401) return null
      throw error
    })
    return key === null ? await reply.code(204).send() : await describeSession(key, sql)
  })

  app.delete('/console/session', { schema: { hide: true } }, async (request, reply) => {
    const key = await findSessionKey(request, options).catch(() => null)
    if (key !== null) await record({ kind: 'logout', object: 'session', userId: key.owner?.userId ?? null, keyHash: key.hash, address: addressOf(request) })
    const token = request.cookies[SESSION_COOKIE] ?? ''
    const found = await sessions.find(token)
    const url = found?.keyHash === null ? await options.findLogoutUrl(request, found, token) : null
    await endSession(request, sessions)
    reply.clearCookie(SESSION_COOKIE, { path: '/' })
    return url === null ? await reply.code(204).send() : { logout_url: url }
  })
}

/** @returns the token of a new session. @throws {HttpError} 400 or 401, 429 after too many wrong passwords. */
async function beginSession (
  request: FastifyRequest<{ Body: LoginBody }>, { keys, sessions, logIn, sql }: SessionOptions
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

/** Where a request comes from; ingest, which forwards it, says so. */
export function addressOf ({ headers, ip }: FastifyRequest): string {
  const forwarded = headers['x-forwarded-for']
  return typeof forwarded === 'string' && forwarded.trim() !== '' ? forwarded.trim() : ip
}

/**
 * The personal key of the session of a request.
 *
 * @returns null when the request has no session cookie, or does not come from the console.
 * @throws {HttpError} 401 when the session has ended or its key is no longer valid.
 */
export async function findSessionKey (
  request: FastifyRequest, options: Pick<SessionOptions, 'sessions' | 'keys' | 'keepFresh'>
): Promise<PersonalKey | null> {
  const token = request.cookies[SESSION_COOKIE]
  if (token === undefined || request.headers[CONSOLE_HEADER] === undefined) return null
  refuseForeign(request)
  return await sessionKeyOf(request, token, options)
}

async function sessionKeyOf (
  request: FastifyRequest, token: string, { sessions, keys, keepFresh }: Pick<SessionOptions, 'sessions' | 'keys' | 'keepFresh'>
): Promise<PersonalKey> {
  let found = await sessions.find(token)
  if (found?.keyHash === null && found.issuer !== null && found.claimsReadAt !== null) {
    found = await keepFresh(request, found, token) ? await sessions.find(token) : null
  }
  if (found === null) throw new HttpError(401, 'authentication_error', 'not_authenticated', 'Log in first.')
  if (found.keyHash !== null) return await keys.findPersonalKeyByHash(found.keyHash)
  const { userId, roles } = found
  return {
    hash: hashToken(token), isSession: true, scopes: ['*'], projectIds: null, limits: [roles ?? []],
    expiresAt: Infinity, isRevoked: false, owner: { userId, lastUsedAt: null }
  }
}

/** Refuses what a page of another origin sends, the same host on another port included. */
export function refuseForeign ({ method, headers }: FastifyRequest): void {
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
  request: FastifyRequest, reply: FastifyReply, token: string, { publicUrl }: Pick<SessionOptions, 'publicUrl'>
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
