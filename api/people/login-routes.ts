import cookie from '@fastify/cookie'
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { addressOf, isOverTls, type SessionOptions, setCookie } from '../../console/server/session-routes.ts'
import { createSessions, hashToken, type SessionUser } from '../../console/server/sessions.ts'
import { HttpError } from '../../engines/errors.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createSemaphore } from '../../platform/semaphore.ts'
import type { Membership } from '../../schema/roles.ts'
import { publicOrigin } from '../http/pagination.ts'
import { admitIdentity, type Invited } from './admit-identity.ts'
import { createLogIn, findInvited } from './log-in.ts'
import type { Grant } from './login-roles.ts'
import type { Identity, LoginChecks, Provider, Tokens } from './oidc.ts'
import { writeRecord } from './record.ts'

export interface ExternalLogin {
  /** Null without one. */
  provider: Provider | null
  /** Whether a proxy in front logs people in: ingest hands its headers on only from trusted proxies. */
  trustsProxy: boolean
  readRoles: (grant: Grant) => Membership[]
}

const COOKIE = 'millrace_oidc'
const PATH = '/console/login/oidc'
const LOGIN_SECONDS = 600

/** Claims are read again after this long, in milliseconds: a group that was taken away counts no longer. */
const CLAIMS_MS = 240_000

/** What the browser keeps between the way to the provider and the way back. */
interface Pending extends LoginChecks { to: string, invitation: string | null }

interface LoginDeps extends SessionOptions, ExternalLogin {
  sql: Sql
  logger: Logger
  now: () => number
}

const PASSWORDS_ONLY: ExternalLogin = { provider: null, trustsProxy: false, readRoles: () => [] }

/** Sessions with every way to begin one, and the record of them. */
export function composeLogin (
  given: { sql: Sql, keys: KeyDirectory, now: () => number, publicUrl: string, login?: ExternalLogin }
): SessionOptions & ExternalLogin {
  const deps = { ...given, ...given.login ?? PASSWORDS_ONLY }
  return {
    ...deps,
    sessions: createSessions(deps),
    logIn: createLogIn(deps),
    record: async (line) => await writeRecord(deps.sql, line),
    keepFresh: async (request, found, token) => await keepClaimsFresh(request, found, token, deps),
    findLogoutUrl: async (request, found, token) => await findLogoutUrl(request, found, token, deps)
  }
}

/** Cookies, for all routes that follow; login at an identity provider, or by a proxy in front. */
export const loginRoutes = fastifyPlugin(async (app: FastifyInstance, deps: LoginDeps): Promise<void> => {
  const { provider, publicUrl, sql, sessions, record, readRoles, now, logger } = deps
  await app.register(cookie)

  app.get('/console/login', { schema: { hide: true } }, async () => ({ provider: provider !== null }))

  type Begun = { Querystring: { to?: string, invitation?: string } }
  app.get<Begun>(PATH, { schema: { hide: true } }, async (request, reply) => {
    if (provider === null) throw new HttpError(404, 'invalid_request', 'not_found', 'There is no identity provider.')
    const begun = await provider.begin(`${publicOrigin(request, publicUrl)}${PATH}/callback`).catch((err: unknown) => {
      logger.warn({ err }, 'the identity provider does not answer')
      return null
    })
    if (begun === null) return await reply.redirect('/console#refused=identity_provider_unavailable', 302)
    const { url, checks } = begun
    const { to, invitation = null } = request.query
    const pending: Pending = { ...checks, to: readReturnPath(to), invitation }
    reply.setCookie(COOKIE, Buffer.from(JSON.stringify(pending)).toString('base64url'), {
      // The way back comes from the provider's page, with which `strict` cookies are not sent.
      path: PATH, httpOnly: true, sameSite: 'lax', secure: isOverTls(request, publicUrl), maxAge: LOGIN_SECONDS
    })
    return await reply.header('cache-control', 'no-store').redirect(url, 302)
  })

  app.get(`${PATH}/callback`, { schema: { hide: true } }, async (request, reply) => {
    const pending = readPending(request.cookies[COOKIE])
    // Once: an address that is opened again finds nothing.
    reply.clearCookie(COOKIE, { path: PATH }).header('cache-control', 'no-store')
    const address = addressOf(request)
    try {
      if (provider === null || pending === null) {
        throw new HttpError(401, 'authentication_error', 'authentication_failed', 'The login took too long, or began elsewhere.')
      }
      const identity = await provider.finish(new URL(request.url, publicOrigin(request, publicUrl)), pending)
      const { invitation: token } = pending
      const invited = token === null ? null : { token, userId: await findInvited(sql, token, new Date(now())) }
      await begin(request, reply, identity, invited)
      return await reply.redirect(pending.to, 302)
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      logger.warn({ err: error.cause ?? error }, 'login at the identity provider was refused')
      await record({ kind: 'refusal', object: 'oidc', address, detail: { code: error.code } })
      return await reply.redirect(`/console#refused=${error.code}`, 302)
    }
  })

  if (deps.trustsProxy) {
    app.addHook('preHandler', async (request, reply) => {
      const identity = readProxyHeaders(request)
      if (identity === null || request.routeOptions.url !== '/console/session' || request.method !== 'GET') return
      if (request.cookies['millrace_session'] !== undefined && await sessions.find(request.cookies['millrace_session']) !== null) return
      // The page asks for its session with this request, and gets that of the proxy.
      request.cookies['millrace_session'] = await begin(request, reply, identity, null)
    })
  }

  async function begin (
    request: FastifyRequest, reply: FastifyReply, identity: Identity, invited: Invited | null
  ): Promise<string> {
    const address = addressOf(request)
    const userId = await admitIdentity(sql, identity, { roles: readRoles(identity), invited, address })
    const before = request.cookies['millrace_session']
    if (before !== undefined) await sessions.end(before)
    const token = await sessions.beginOfUser(userId)
    const { tokens } = identity
    await sql`
      UPDATE console_sessions SET claims_read_at = ${new Date(now())}, oidc_tokens = ${tokens === null ? null : seal(tokens, token)}
      WHERE user_id = ${userId} AND token_hash = ${hashToken(token)}`
    await record({ kind: 'login', object: tokens === null ? 'proxy' : 'oidc', userId, address })
    setCookie(request, reply, token, deps)
    return token
  }
}, { name: 'login-routes' })

/** At most two at once: each keeps a connection to Postgres while the provider answers. */
const rereading = createSemaphore({ limit: 2, maxWaitMs: 10_000 })

/**
 * Reads the claims of a session again when they are old: of all its requests at a time, in any process, one asks.
 *
 * @returns false when the session has ended: the provider or the proxy no longer vouches for the user.
 */
async function keepClaimsFresh (
  request: FastifyRequest, { userId, issuer, subject, claimsReadAt }: SessionUser, token: string,
  deps: Pick<LoginDeps, 'sql' | 'now'> & ExternalLogin
): Promise<boolean> {
  const { sql, now, provider, trustsProxy, readRoles } = deps
  const proxied = trustsProxy ? readProxyHeaders(request) : null
  // The proxy has somebody else, or nobody, in the place of this user.
  if (issuer === PROXY && (proxied === null || proxied.subject !== subject)) return false
  if (claimsReadAt === null || now() - claimsReadAt.getTime() < CLAIMS_MS) return true
  return await rereading.run(async () => await sql.begin(async (tx) => {
    const [session] = await tx<{ sealed: string | null, claimsReadAt: Date }[]>`
      SELECT oidc_tokens AS sealed, claims_read_at AS "claimsReadAt" FROM console_sessions
      WHERE token_hash = ${hashToken(token)} FOR UPDATE`
    if (session === undefined) return false
    if (now() - session.claimsReadAt.getTime() < CLAIMS_MS) return true
    const tokens = openSeal(session.sealed, token)
    const asked = provider === null || tokens === null ? null : await provider.refresh(tokens, subject ?? '')
    const identity = issuer === PROXY ? proxied : asked
    const given = identity === null ? [] : readRoles(identity)
    const isAdmitted = identity !== null &&
      await isAdmittedAs(userId, admitIdentity(sql, identity, {
        roles: given, invited: null, address: addressOf(request)
      }))
    if (!isAdmitted) {
      await tx`DELETE FROM console_sessions WHERE token_hash = ${hashToken(token)}`
      return false
    }
    await tx`
      UPDATE console_sessions SET claims_read_at = ${new Date(now())},
        oidc_tokens = ${identity.tokens === null ? null : seal(identity.tokens, token)}
      WHERE token_hash = ${hashToken(token)}`
    return true
  }))
}

async function isAdmittedAs (userId: number, admission: Promise<number>): Promise<boolean> {
  return await admission.then((id) => id === userId, (error: unknown) => {
    if (error instanceof HttpError && error.status === 401) return false
    throw error
  })
}

/** Where a session logs out at its provider; null without one. */
async function findLogoutUrl (
  request: FastifyRequest, { sealed }: SessionUser, token: string,
  { provider, publicUrl }: Pick<LoginDeps, 'provider' | 'publicUrl'>
): Promise<string | null> {
  const tokens = openSeal(sealed, token)
  if (provider === null || tokens === null) return null
  // A provider that does not answer must not keep anybody logged in here.
  return await provider.logoutUrl(tokens, `${publicOrigin(request, publicUrl)}/console`).catch(() => null)
}

const PROXY = 'proxy'

function readProxyHeaders ({ headers }: FastifyRequest): Identity | null {
  const read = (name: string): string => String(headers[`remote-${name}`] ?? '').trim()
  const subject = read('user')
  if (subject === '') return null
  const email = read('email') === '' && subject.includes('@') ? subject : read('email')
  return {
    issuer: PROXY, subject, email, isEmailVerified: true, firstName: read('name'), tokens: null,
    groups: read('groups').split(',').map((group) => group.trim()).filter((group) => group !== '')
  }
}

/** Only below the console, and never another host: `//host` and `/\\host` are addresses of others to a browser. */
export function readReturnPath (to: string | undefined): string {
  return to !== undefined && /^\/console(?:[/?][\w./?=&%~:,+@-]*)?$/.test(to) && !to.includes('//') ? to : '/console'
}

function readPending (cookie: string | undefined): Pending | null {
  try {
    const { state, nonce, verifier, to, invitation } = JSON.parse(Buffer.from(cookie ?? '', 'base64url').toString()) as Partial<Pending>
    if (typeof state !== 'string' || typeof nonce !== 'string' || typeof verifier !== 'string') return null
    return { state, nonce, verifier, to: readReturnPath(to), invitation: typeof invitation === 'string' ? invitation : null }
  } catch {
    // Cut or made up.
    return null
  }
}

/** Encrypts with the token of the cookie, so that the database alone gives nobody the tokens of the provider. */
function seal (tokens: Tokens, token: string): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', keyOf(token), iv)
  const text = Buffer.concat([cipher.update(JSON.stringify(tokens)), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64')
}

function openSeal (sealed: string | null, token: string): Tokens | null {
  if (sealed === null) return null
  const bytes = Buffer.from(sealed, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', keyOf(token), bytes.subarray(0, 12)).setAuthTag(bytes.subarray(12, 28))
  return JSON.parse(Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString()) as Tokens
}

function keyOf (token: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', 'tokens of the identity provider', 32))
}
