/** A real identity provider for tests (oidc-provider), and a browser of few lines that logs in there. */
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import type { TestContext } from './test-context.ts'

/** What of the packages is used here; oidc-provider has no types. */
interface Signable { setProtectedHeader: (header: object) => { sign: (key: unknown) => Promise<string> } }

interface Jose {
  generateKeyPair: (alg: string, options: object) => Promise<{ privateKey: unknown }>
  exportJWK: (key: unknown) => Promise<object>
  decodeJwt: (token: string) => Record<string, unknown>
  SignJWT: new (claims: object) => Signable
}

const require = createRequire(import.meta.url)
const jose = require('jose') as Jose

export interface IdentityProvider {
  issuer: string
  /** Groups of a person by login name, as the next token or answer has them. */
  groups: Map<string, string[]>
  /** Changes the claims of identity tokens; `alg` is that of their signature. */
  tamper: ((claims: Record<string, unknown>) => { claims: Record<string, unknown>, alg?: 'none', foreignKey?: boolean }) | null
  /** Whether it has ended all logins. */
  isRevoked: boolean
  /** Answers requests to a path with this status; 0: never, 200: with the beginning of an answer. */
  failing: { path: '/token' | '/me' | '/jwks', status: number } | null
}

/**
 * @param origin  Of the API that is its client.
 * @param host    For browsers, `localhost` is another site than 127.0.0.1.
 */
export async function startIdentityProvider (t: TestContext, origin: string, host = '127.0.0.1'): Promise<IdentityProvider> {
  const { Provider } = require('oidc-provider') as { Provider: new (issuer: string, configuration: object) => any }
  const generate = async () => (await jose.generateKeyPair('RS256', { extractable: true })).privateKey
  const [privateKey, foreign] = [await generate(), await generate()]
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://${host}:${(server.address() as AddressInfo).port}`
  const own: IdentityProvider = { issuer, groups: new Map(), tamper: null, isRevoked: false, failing: null }
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'millrace', client_secret: 'a secret of the client',
      redirect_uris: [`${origin}/console/login/oidc/callback`], post_logout_redirect_uris: [`${origin}/console`],
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code']
    }],
    jwks: { keys: [{ ...await jose.exportJWK(privateKey), alg: 'RS256', use: 'sig', kid: 'own' }] },
    cookies: { keys: ['of a test'] },
    claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'], profile: ['given_name'] },
    conformIdTokenClaims: false,
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    findAccount: (_: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, given_name: id, groups: own.groups.get(id) ?? [] })
    })
  })
  provider.use(async (context: any, next: () => Promise<void>) => {
    await next()
    if (context.oidc?.route !== 'token' || context.body?.id_token === undefined) return
    if (own.isRevoked) Object.assign(context, { status: 400, body: { error: 'invalid_grant' } })
    else if (own.tamper !== null) {
      const { claims, alg, foreignKey = false } = own.tamper(jose.decodeJwt(context.body.id_token))
      const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
      context.body.id_token = alg === 'none'
        ? `${encode({ alg: 'none' })}.${encode(claims)}.`
        : await new jose.SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'own' }).sign(foreignKey ? foreign : privateKey)
    }
  })
  const answer = provider.callback()
  server.on('request', (request, response) => {
    if (own.failing === null || request.url !== own.failing.path) answer(request, response)
    else if (own.failing.status !== 0) {
      response.writeHead(own.failing.status, { 'content-type': 'application/json' }).write('{"error":"slow_down"')
      if (own.failing.status !== 200) response.end('}')
    }
  })
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return own
}

/** Follows redirects and fills forms as somebody would, with cookies by origin. */
export class TestBrowser {
  readonly cookies = new Map<string, Map<string, string>>()

  cookiesOf (origin: string): string {
    return [...this.cookies.get(origin) ?? []].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  /** @returns the last address and answer: nothing leads further, or `until` matches and it was not opened. */
  async open (
    address: string, { login = 'ann', until }: { login?: string, until?: RegExp } = {}
  ): Promise<{ url: string, status: number, body: string }> {
    let url = address
    let form: URLSearchParams | undefined
    for (let step = 0; step < 20; step++) {
      if (until?.test(url) === true) return { url, status: 0, body: '' }
      const { origin } = new URL(url)
      const response: Response = await fetch(url, {
        redirect: 'manual', headers: { cookie: this.cookiesOf(origin) }, ...form === undefined ? {} : { method: 'POST', body: form }
      })
      const jar = this.cookies.get(origin) ?? new Map<string, string>()
      this.cookies.set(origin, jar)
      for (const text of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(text) ?? []
        if (value === '') jar.delete(name)
        else jar.set(name, value)
      }
      const body = await response.text()
      form = undefined
      const location = response.headers.get('location')
      if (location !== null) {
        url = new URL(location, url).href
        continue
      }
      const prompt = /name="prompt" value="(\w+)"/.exec(body)?.[1]
      if (prompt === undefined) return { url, status: response.status, body }
      url = new URL(/action="([^"]+)"/.exec(body)?.[1] ?? url, url).href
      form = new URLSearchParams({ prompt, login, password: 'any' })
    }
    throw new Error(`${address} leads on and on`)
  }
}
