/** What an identity provider, or a proxy in front, says of a session that it began. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { hashToken, type SessionUser } from '../../console/server/sessions.ts'
import { HttpError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createSemaphore, SemaphoreTimeoutError } from '../../platform/semaphore.ts'
import type { Membership } from '../../schema/roles.ts'
import { publicOrigin } from '../http/pagination.ts'
import { admitIdentity } from './admit-identity.ts'
import type { Grant } from './login-roles.ts'
import { type Identity, type Provider, type Tokens, unavailable } from './oidc.ts'
import { addressOf } from './record.ts'

export interface ExternalLogin {
  /** Null without one. */
  provider: Provider | null
  /** Whether a proxy in front logs people in: ingest hands its headers on only from trusted proxies. */
  trustsProxy: boolean
  readRoles: (grant: Grant) => Membership[]
}

export interface LoginDeps extends ExternalLogin {
  sql: Sql
  /** Base URL that people use; empty: any. */
  publicUrl: string
  now: () => number
}

/** Claims are read again after this long, in milliseconds: a group that was taken away counts no longer. */
const CLAIMS_MS = 240_000

/** At most two at once: each keeps a connection to Postgres while the provider answers. */
const rereading = createSemaphore({ limit: 2, maxWaitMs: 10_000 })

/**
 * Reads the claims of a session again when they are old: of all its requests at a time, in any process, one asks.
 *
 * @returns false when the session has ended: the provider or the proxy no longer vouches for the user.
 * @throws {HttpError} 503 when the provider does not answer, or is asked for too many sessions.
 */
export async function keepClaimsFresh (
  request: FastifyRequest, { userId, issuer, subject, claimsReadAt }: SessionUser, token: string,
  deps: LoginDeps
): Promise<boolean> {
  const { sql, now, provider, trustsProxy, readRoles } = deps
  const proxied = trustsProxy ? readProxyHeaders(request) : null
  // The proxy has somebody else, or nobody, in the place of this user.
  if (issuer === PROXY && (proxied === null || proxied.subject !== subject)) return false
  if (claimsReadAt === null || now() - claimsReadAt.getTime() < CLAIMS_MS) return true
  const found = await rereading.run(async () => await sql.begin(async (tx): Promise<boolean | HttpError> => {
    const [session] = await tx<{ sealed: string | null, claimsReadAt: Date }[]>`
      SELECT oidc_tokens AS sealed, claims_read_at AS "claimsReadAt" FROM console_sessions
      WHERE token_hash = ${hashToken(token)} FOR UPDATE`
    if (session === undefined) return false
    if (now() - session.claimsReadAt.getTime() < CLAIMS_MS) return true
    const tokens = openSeal(session.sealed, token)
    const asked = provider === null || tokens === null ? null : await provider.refresh(tokens, subject ?? '')
    if (asked?.identity instanceof HttpError && asked.identity.status === 503) {
      await tx`UPDATE console_sessions SET oidc_tokens = ${seal(asked.tokens, token)} WHERE token_hash = ${hashToken(token)}`
      return asked.identity
    }
    const vouched = issuer === PROXY ? proxied : asked?.identity ?? null
    const identity = vouched instanceof HttpError ? null : vouched
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
  })).catch((error: unknown) => { throw error instanceof SemaphoreTimeoutError ? unavailable(error) : error })
  // After the new tokens are stored.
  if (found instanceof HttpError) throw found
  return found
}

async function isAdmittedAs (userId: number, admission: Promise<number>): Promise<boolean> {
  return await admission.then((id) => id === userId, (error: unknown) => {
    if (error instanceof HttpError && error.status === 401) return false
    throw error
  })
}

/** Where a session logs out at its provider; null without one. */
export async function findLogoutUrl (
  request: FastifyRequest, { sealed }: SessionUser, token: string,
  { provider, publicUrl }: Pick<LoginDeps, 'provider' | 'publicUrl'>
): Promise<string | null> {
  const tokens = openSeal(sealed, token)
  if (provider === null || tokens === null) return null
  // A provider that does not answer must not keep anybody logged in here.
  return await provider.logoutUrl(tokens, `${publicOrigin(request, publicUrl)}/console`).catch(() => null)
}

export const PROXY = 'proxy'

export function readProxyHeaders ({ headers }: FastifyRequest): Identity | null {
  const read = (name: string): string => String(headers[`remote-${name}`] ?? '').trim()
  const subject = read('user')
  if (subject === '') return null
  const email = read('email') === '' && subject.includes('@') ? subject : read('email')
  return {
    issuer: PROXY, subject, email, isEmailVerified: true, firstName: read('name'), tokens: null,
    groups: read('groups').split(',').map((group) => group.trim()).filter((group) => group !== '')
  }
}

/** Encrypts with the token of the cookie, so that the database alone gives nobody the tokens of the provider. */
export function seal (tokens: Tokens, token: string): string {
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
