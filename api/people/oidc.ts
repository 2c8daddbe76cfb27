import { AsyncLocalStorage } from 'node:async_hooks'
import * as oidc from 'openid-client'
import { HttpError } from '../../engines/errors.ts'
import { fieldsOf } from '../../engines/fields.ts'
import type { Grant } from './login-roles.ts'

/** How far the clocks of provider and API may differ, in seconds. */
const SKEW_SECONDS = 300

/** Longest wait for the provider, in seconds: somebody waits for the page. */
const PATIENCE_SECONDS = 5

export interface OidcOptions {
  /** Empty: no provider. */
  issuer: string
  clientId: string
  clientSecret: string
  scopes: string
  /** Dots lead into objects: `realm_access.roles`. */
  claim: string
}

/** Somebody logged in by a provider or a proxy. Both names together are the identity, the address is not. */
export interface Identity extends Grant {
  issuer: string
  subject: string
  firstName: string
  tokens: Tokens | null
}

/** What a session keeps to ask the provider again, and to log out there. */
export interface Tokens { idToken: string, accessToken: string, refreshToken: string | null }

/** What the callback of a login must bring back. */
export interface LoginChecks { state: string, nonce: string, verifier: string }

/** Gets the new refresh token, which the library keeps to itself when it cannot check the identity token beside it. */
const rotations = new AsyncLocalStorage<(refreshToken: string) => void>()

export type Provider = ReturnType<typeof createProvider>

/** An identity provider by OpenID Connect: authorization code with PKCE, state and nonce. */
export function createProvider (options: OidcOptions) {
  let configuration: Promise<oidc.Configuration> | undefined
  const configure = async (): Promise<oidc.Configuration> => {
    // What fails once is tried again by the next request.
    configuration ??= discover(options).catch((error: unknown) => {
      configuration = undefined
      throw unavailable(error)
    })
    return await configuration
  }

  async function identify (
    config: oidc.Configuration, claims: object, tokens: Tokens, subject: string
  ): Promise<Identity> {
    const { userinfo_endpoint: userinfo } = config.serverMetadata()
    const isWhole = readPath(claims, options.claim) !== undefined || userinfo === undefined
    const all = isWhole ? claims : { ...claims, ...await oidc.fetchUserInfo(config, tokens.accessToken, subject) }
    const { email, email_verified: isVerified, given_name: given, name } = fieldsOf(all)
    return {
      issuer: options.issuer, subject, tokens,
      email: typeof email === 'string' ? email : '',
      isEmailVerified: isVerified === true,
      firstName: typeof given === 'string' ? given : typeof name === 'string' ? name : '',
      groups: [readPath(all, options.claim) ?? []].flat().map(String)
    }
  }

  return {
    async begin (redirectUri: string): Promise<{ url: string, checks: LoginChecks }> {
      const config = await configure()
      const checks = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() }
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri, scope: options.scopes, state: checks.state, nonce: checks.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(checks.verifier), code_challenge_method: 'S256',
        // Without it some give no refresh token.
        ...options.scopes.includes('offline_access') && { prompt: 'consent' }
      })
      return { url: url.href, checks }
    },
    /** @param url  Of the callback, as the browser asked for it. @throws {HttpError} 401, 503. */
    async finish (url: URL, { state, nonce, verifier }: LoginChecks): Promise<Identity> {
      const config = await configure()
      const answer = await oidc.authorizationCodeGrant(config, url, {
        expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true
      }).catch((error: unknown) => { throw refusalOf(error) })
      const claims = answer.claims()
      if (claims === undefined) throw refusalOf(new Error('no id token'))
      // The library looks at exp and nbf only.
      if (claims.iat > Date.now() / 1000 + SKEW_SECONDS) throw refusalOf(new Error('the id token is of the future'))
      return await identify(config, claims, tokensOf(answer, null), claims.sub)
        .catch((error: unknown) => { throw refusalOf(error) })
    },
    /**
     * Reads the claims again. `tokens` are to be kept whatever `identity` is: a refresh token may work once only.
     *
     * @returns as identity: a 401 when the provider has ended the login, a 503 when it does not answer.
     * @throws {HttpError} 503.
     */
    async refresh (tokens: Tokens, subject: string): Promise<{ tokens: Tokens, identity: Identity | HttpError }> {
      const config = await configure()
      let fresh = tokens
      try {
        const answer = await grantAgain(config, tokens, (refreshToken) => { fresh = { ...tokens, refreshToken } })
        const claims = answer?.claims()
        if (claims !== undefined && claims.sub !== subject) throw new Error('the id token is of somebody else')
        fresh = answer === null ? tokens : tokensOf(answer, tokens)
        // An identity token that is not new would repeat the old groups.
        return { tokens: fresh, identity: await identify(config, claims ?? {}, fresh, subject) }
      } catch (error) {
        return { tokens: fresh, identity: refusalOf(error) }
      }
    },
    /** Where to log out at the provider; null when it does not offer that. */
    async logoutUrl ({ idToken }: Tokens, returnTo: string): Promise<string | null> {
      const config = await configure()
      if (config.serverMetadata().end_session_endpoint === undefined) return null
      return oidc.buildEndSessionUrl(config, { id_token_hint: idToken, post_logout_redirect_uri: returnTo }).href
    }
  }
}

/** @param keep  Called with a new refresh token, whatever follows. @returns null without an old one. */
async function grantAgain (config: oidc.Configuration, { refreshToken }: Tokens, keep: (token: string) => void) {
  if (refreshToken === null) return null
  return await rotations.run(keep, async () => await oidc.refreshTokenGrant(config, refreshToken))
}

async function discover ({ issuer, clientId, clientSecret }: OidcOptions): Promise<oidc.Configuration> {
  const url = new URL(issuer)
  // Signatures are checked even though tokens come straight from the provider.
  const execute = [oidc.enableNonRepudiationChecks, ...url.protocol === 'http:' ? [oidc.allowInsecureRequests] : []]
  const metadata = { client_secret: clientSecret, [oidc.clockTolerance]: SKEW_SECONDS }
  const config = await oidc.discovery(url, clientId, metadata, undefined, { execute, timeout: PATIENCE_SECONDS })
  config[oidc.customFetch] = async (address, options) => {
    const response = await fetch(address, { ...options, body: options.body ?? null })
    const keep = rotations.getStore()
    const { token_endpoint: token = issuer, jwks_uri: keys = issuer } = config.serverMetadata()
    // Of any other address it is an answer.
    if (response.status === 404 && address === new URL(keys).href) throw new TypeError('the provider has no keys')
    if (keep !== undefined && response.ok && address === new URL(token).href) {
      const { refresh_token: rotated } = fieldsOf(await response.clone().json().catch(() => null))
      if (typeof rotated === 'string') keep(rotated)
    }
    return response
  }
  return config
}

function tokensOf (
  answer: { id_token?: string, access_token: string, refresh_token?: string }, before: Tokens | null
): Tokens {
  return {
    idToken: answer.id_token ?? before?.idToken ?? '', accessToken: answer.access_token,
    refreshToken: answer.refresh_token ?? before?.refreshToken ?? null
  }
}

function readPath (claims: object, path: string): unknown {
  return path === '' ? undefined : path.split('.').reduce<unknown>((value, name) => fieldsOf(value)[name], claims)
}

/** A provider that does not answer, or not as one does, has refused nobody. */
function refusalOf (error: unknown): HttpError {
  if (isUnanswered(error)) return unavailable(error)
  return new HttpError(401, 'authentication_error', 'authentication_failed', 'The identity provider did not log you in.', { cause: error })
}

/** The library wraps what happened: an answer, one whose body did not come, or none. */
function isUnanswered (error: unknown): boolean {
  const status = error instanceof Response || error instanceof oidc.ResponseBodyError ? error.status : 0
  if (status >= 500 || status === 429) return true
  return error instanceof Error && (/^(?:Timeout|Type)Error$/.test(error.name) || isUnanswered(error.cause))
}

export function unavailable (cause: unknown): HttpError {
  return new HttpError(503, 'server_error', 'identity_provider_unavailable', 'The identity provider does not answer.', { cause, action: 'retry' })
}
