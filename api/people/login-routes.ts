import cookie from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { createSessions, hashToken } from '../../console/server/sessions.ts'
import { HttpError } from '../../engines/errors.ts'
import type { Logger } from '../../platform/logger.ts'
import { publicOrigin } from '../http/pagination.ts'
import { admitIdentity, type Invited } from './admit-identity.ts'
import { type LoginDeps, PROXY, readProxyHeaders, seal } from './external-login.ts'
import { findInvited } from './log-in.ts'
import type { Identity, LoginChecks } from './oidc.ts'
import { addressOf, writeRecord } from './record.ts'
import { isOverTls, SESSION_COOKIE, setCookie } from './session-routes.ts'

const COOKIE = 'millrace_oidc'
const PATH = '/console/login/oidc'
const LOGIN_SECONDS = 600

/** What the browser keeps between the way to the provider and the way back. */
interface Pending extends LoginChecks { to: string, invitation: string | null }

/** Cookies, for all routes that follow; login at an identity provider, or by a proxy in front. */
export const loginRoutes = fastifyPlugin(async (app: FastifyInstance, deps: LoginDeps & { logger: Logger }) => {
  const { provider, publicUrl, sql, readRoles, now, logger } = deps
  const sessions = createSessions(deps)
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
      await writeRecord(sql, { kind: 'refusal', object: 'oidc', address, detail: { code: error.code } })
      return await reply.redirect(`/console#refused=${error.code}`, 302)
    }
  })

  if (deps.trustsProxy) {
    app.addHook('preHandler', async (request, reply) => {
      const identity = readProxyHeaders(request)
      if (identity === null || request.routeOptions.url !== '/console/session' || request.method !== 'GET') return
      const before = request.cookies[SESSION_COOKIE]
      const found = before === undefined ? null : await sessions.find(before)
      // One that the proxy began for somebody else has ended.
      const isOther = found?.keyHash === null && found.issuer === PROXY && found.subject !== identity.subject
      if (found !== null && !isOther) return
      // The page asks for its session with this request, and gets that of the proxy.
      request.cookies[SESSION_COOKIE] = await begin(request, reply, identity, null)
    })
  }

  async function begin (
    request: FastifyRequest, reply: FastifyReply, identity: Identity, invited: Invited | null
  ): Promise<string> {
    const address = addressOf(request)
    const userId = await admitIdentity(sql, identity, { roles: readRoles(identity), invited, address })
    const before = request.cookies[SESSION_COOKIE]
    if (before !== undefined) await sessions.end(before)
    const token = await sessions.beginOfUser(userId)
    const { tokens } = identity
    await sql`
      UPDATE console_sessions SET claims_read_at = ${new Date(now())}, oidc_tokens = ${tokens === null ? null : seal(tokens, token)}
      WHERE user_id = ${userId} AND token_hash = ${hashToken(token)}`
    await writeRecord(sql, { kind: 'login', object: tokens === null ? 'proxy' : 'oidc', userId, address })
    setCookie(request, reply, token, deps)
    return token
  }
}, { name: 'login-routes' })

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
