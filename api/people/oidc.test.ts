/** Login at a real identity provider: who gets in as what, what is refused, and when it ends. */
import t from 'tap'
import { startIdentityProvider, TestBrowser } from '../../test/support/identity-provider.ts'
import { freePort } from '../../test/support/local-ports.ts'
import { createTestApi } from '../testing/create-test-api.ts'
import { readReturnPath } from './login-routes.ts'
import { readRoleRules } from './login-roles.ts'
import { createProvider } from './oidc.ts'

const port = await freePort()
const origin = `http://127.0.0.1:${port}`
const idp = await startIdentityProvider(t, origin)
let time = Date.now()
const rules = readRoleRules('admins=admin, team=editor:1, staff=viewer, @never.example=admin')
const client = { clientId: 'millrace', clientSecret: 'a secret of the client' }
const provider = createProvider({ issuer: idp.issuer, ...client, scopes: 'openid email profile', claim: 'groups' })
const api = await createTestApi(t, {
  now: () => time, publicUrl: origin, login: { provider, trustsProxy: true, readRoles: rules }
})
await api.app.listen({ port, host: '127.0.0.1' })

const LOGIN = `${origin}/console/login/oidc`

async function logIn (login: string, path = '', browser = new TestBrowser()): Promise<{ browser: TestBrowser, url: string }> {
  const { url } = await browser.open(`${LOGIN}${path}`, { login })
  return { browser, url: url.slice(origin.length) }
}

async function sessionOf (browser: TestBrowser): Promise<any> {
  const response = await fetch(`${origin}/console/session`, { headers: { cookie: browser.cookiesOf(origin), 'millrace-console': '1' } })
  return response.status === 200 ? await response.json() : response.status
}

t.test('a first login makes an account with the roles of the claim, and the place that was asked for', async (t) => {
  idp.groups.set('ada', ['admins', 'other'])
  const { browser, url } = await logIn('ada', '?to=/console/projects/1/flags')
  t.equal(url, '/console/projects/1/flags')
  t.match(await sessionOf(browser), { email: 'ada@example.com', first_name: 'ada', scopes: ['*'], all_projects: true })
  idp.groups.set('eda', ['team'])
  t.match(await sessionOf((await logIn('eda')).browser), { email: 'eda@example.com', all_projects: false, projects: [{ id: 1 }] })
  t.match(await api.call('GET', '/api/users'), { body: { results: [{}, { email: 'ada@example.com', provider: idp.issuer }, {}] } })
  await logIn('ada')
  t.match((await api.call('GET', '/api/users')).body.results.length, 3, 'the second login is the same account')
  const text = JSON.stringify(await api.sql`SELECT * FROM console_sessions`)
  t.notMatch(text, /eyJ[\w-]+\./, 'no token of the provider can be read')
})

t.test('nobody gets in without a role, by an address alone, or into a disabled account', async (t) => {
  t.match(await logIn('nobody'), { url: '/console#refused=no_role' })
  idp.groups.set('ann', ['admins'])
  t.match(await logIn('ann'), { url: '/console#refused=account_exists' }, 'ann@example.com owns keys here')
  idp.groups.set('dan', ['staff'])
  t.match(await sessionOf((await logIn('dan')).browser), { email: 'dan@example.com' })
  await api.sql`UPDATE users SET disabled_at = now() WHERE email = 'dan@example.com'`
  t.match(await logIn('dan'), { url: '/console#refused=disabled' })
  const { body: { link } } = await api.call('POST', '/api/invitations', { email: 'ivy@elsewhere.example', roles: [{ project_id: 1, role: 'viewer' }] })
  const { browser } = await logIn('ivy', `?invitation=${/#invitation=(.+)/.exec(link)?.[1]}`)
  t.match(await sessionOf(browser), { email: 'ivy@elsewhere.example' }, 'an invitation binds the account')
  t.match(await api.sql`SELECT kind, detail FROM record WHERE kind = 'refusal' AND object = 'oidc' ORDER BY id LIMIT 1`, [{ detail: { code: 'no_role' } }])
})

t.test('tokens that are not for us, or not of now, are refused', async (t) => {
  idp.groups.set('mal', ['admins'])
  const now = Math.floor(Date.now() / 1000)
  const cases: Record<string, NonNullable<typeof idp.tamper>> = {
    issuer: (claims) => ({ claims: { ...claims, iss: 'https://other.example' } }),
    audience: (claims) => ({ claims: { ...claims, aud: 'other' } }),
    nonce: (claims) => ({ claims: { ...claims, nonce: 'of another login' } }),
    'no nonce': ({ nonce: _, ...claims }) => ({ claims }),
    'alg none': (claims) => ({ claims, alg: 'none' }),
    'key of others': (claims) => ({ claims, foreignKey: true }),
    expired: (claims) => ({ claims: { ...claims, iat: now - 7200, exp: now - 400 } }),
    early: (claims) => ({ claims: { ...claims, nbf: now + 400 } }),
    'made later': (claims) => ({ claims: { ...claims, iat: now + 400, exp: now + 4000 } }),
    subject: ({ sub: _, ...claims }) => ({ claims })
  }
  for (const [name, tamper] of Object.entries(cases)) {
    idp.tamper = tamper
    const { browser, url } = await logIn('mal')
    t.equal(url, '/console#refused=authentication_failed', name)
    t.equal(await sessionOf(browser), 204, name)
  }
  for (const skew of [{ exp: now - 200, iat: now - 3600 }, { nbf: now + 200, iat: now + 200 }]) {
    idp.tamper = (claims) => ({ claims: { ...claims, ...skew } })
    t.match(await logIn('mal'), { url: '/console' }, 'clocks may differ by five minutes')
  }
  idp.tamper = null
})

t.test('a callback works once, in the browser that began, with its own state', async (t) => {
  const [one, two] = [new TestBrowser(), new TestBrowser()]
  const { url } = await one.open(LOGIN, { login: 'ada', until: /oidc\/callback/ })
  t.match(await two.open(url), { url: `${origin}/console#refused=authentication_failed` }, 'a browser that did not begin')
  const other = await two.open(LOGIN, { login: 'eda', until: /oidc\/callback/ })
  t.match(await one.open(other.url), { url: `${origin}/console#refused=authentication_failed` }, 'the state of somebody else')
  const again = await one.open(LOGIN, { login: 'ada', until: /oidc\/callback/ })
  const kept = one.cookiesOf(origin)
  t.match(await one.open(again.url), { url: `${origin}/console`, status: 200 })
  t.match(await one.open(again.url), { url: `${origin}/console#refused=authentication_failed` }, 'opened again')
  const replay = await fetch(again.url, { redirect: 'manual', headers: { cookie: kept } })
  t.match(replay.headers.get('location'), '/console#refused=authentication_failed', 'the code was used, whoever has the cookie')
})

t.test('a login takes over no session of somebody else, and leaves none', async (t) => {
  const { browser } = await logIn('ada')
  const ofAda = browser.cookiesOf(origin)
  browser.cookies.delete(idp.issuer)
  await logIn('eda', '', browser)
  t.match(await sessionOf(browser), { email: 'eda@example.com' })
  const as = async (cookie: string) => (await fetch(`${origin}/api/users/@me`, { headers: { cookie, 'millrace-console': '1' } })).status
  t.equal(await as(ofAda), 401, 'the session that the browser had is over')
  t.equal(await as(browser.cookiesOf(origin)), 200)
  // A session that somebody planted in a browser is not the one of whoever logs in there.
  const planted = (await logIn('eda')).browser.cookiesOf(origin)
  const victim = new TestBrowser()
  victim.cookies.set(origin, new Map([['millrace_session', planted.split('=')[1] ?? '']]))
  await logIn('ada', '', victim)
  t.not(victim.cookiesOf(origin), planted)
  t.equal(await as(planted), 401)
})

t.test('a group that was taken away has no right within five minutes, and an ended login ends here', async (t) => {
  idp.groups.set('flo', ['team'])
  const { browser } = await logIn('flo')
  const list = async (browser: TestBrowser) => (await fetch(`${origin}/api/projects/1/persons`, { headers: { cookie: browser.cookiesOf(origin), 'millrace-console': '1' } })).status
  t.equal(await list(browser), 200)
  idp.groups.set('flo', ['staff'])
  time += 299_000
  t.same(await Promise.all([list(browser), list(browser), list(browser)]), [403, 403, 403], 'a viewer now')
  idp.groups.set('flo', [])
  time += 299_000
  t.equal(await list(browser), 401)
  t.equal(await sessionOf(browser), 204)
  idp.groups.set('flo', ['staff'])
  const again = (await logIn('flo')).browser
  idp.isRevoked = true
  time += 299_000
  t.equal(await list(again), 401)
  idp.isRevoked = false
  const last = (await logIn('flo')).browser
  idp.tamper = (claims) => ({ claims: { ...claims, sub: 'ada', groups: ['admins'] } })
  time += 299_000
  t.equal(await list(last), 401, 'somebody else is no answer')
  idp.tamper = null
  idp.groups.set('flo', [])
  await logIn('flo')
  t.match(await api.sql`SELECT count(*) AS count FROM memberships m JOIN users u ON u.id = user_id WHERE email = 'flo@example.com'`, [{ count: 0 }])
})

t.test('a provider that is slow, broken or overloaded ends no login', async (t) => {
  idp.groups.set('flo', ['team'])
  const { browser } = await logIn('flo')
  const list = async () => (await fetch(`${origin}/api/projects/1/persons`, { headers: { cookie: browser.cookiesOf(origin), 'millrace-console': '1' } })).status
  t.teardown(() => Object.assign(idp, { failing: null, tamper: null }))
  // Groups are in the answer of the provider alone.
  idp.tamper = ({ groups, ...claims }) => ({ claims })
  for (const failing of [{ path: '/token', status: 502 }, { path: '/token', status: 429 }, { path: '/me', status: 503 }, { path: '/token', status: 0 }, { path: '/token', status: 200 }] as const) {
    time += 299_000
    idp.failing = failing
    t.equal(await list(), 503, `${failing.path} answers ${failing.status}`)
    idp.failing = null
    t.equal(await list(), 200, 'the refresh token was not used twice')
  }
})

t.test('keys of the provider that cannot be read end no login, although the refresh token was used', async (t) => {
  const fresh = createProvider({ issuer: idp.issuer, ...client, scopes: 'openid email profile', claim: 'groups' })
  t.teardown(() => { idp.failing = null })
  idp.groups.set('joe', ['team'])
  const { url, checks } = await provider.begin(`${origin}/console/login/oidc/callback`)
  const { url: callback } = await new TestBrowser().open(url, { login: 'joe', until: /oidc\/callback/ })
  const { tokens, subject } = await provider.finish(new URL(callback), checks)
  for (const status of [503, 404, 200]) {
    idp.failing = { path: '/jwks', status }
    const { tokens: rotated, identity } = await fresh.refresh(tokens!, subject)
    t.match(identity, { status: 503 }, `they answer ${status}`)
    t.not(rotated.refreshToken, tokens!.refreshToken)
    Object.assign(tokens!, rotated)
  }
  idp.failing = { path: '/token', status: 404 }
  t.match(await fresh.refresh(tokens!, subject), { identity: { status: 401 } }, 'only keys are away with 404')
  idp.failing = null
  t.match(await fresh.refresh(tokens!, subject), { identity: { subject, groups: ['team'] } })
})

t.test('logging out ends the session here, and leads to the provider', async (t) => {
  const { browser } = await logIn('ada')
  const cookie = browser.cookiesOf(origin)
  const response = await fetch(`${origin}/console/session`, { method: 'DELETE', headers: { cookie, 'millrace-console': '1' } })
  const { logout_url: url } = await response.json() as { logout_url: string }
  t.ok(url.startsWith(`${idp.issuer}/session/end?`) && url.includes('id_token_hint=') && url.includes(encodeURIComponent(`${origin}/console`)))
  t.equal((await fetch(`${origin}/console/session`, { headers: { cookie, 'millrace-console': '1' } })).status, 204, 'a cookie stolen before is dead')
})

t.test('nobody is sent to another host', async (t) => {
  for (const to of ['//evil.example', 'https://evil.example', '/\\evil.example', '/console//evil.example', '/console\\evil', '/consolevil', '/console/%0d%0aset-cookie', 'javascript:alert(1)', '/console/@evil.example/..//x', '']) {
    const path = readReturnPath(to)
    t.equal(new URL(path, origin).origin, origin, to)
    t.ok(/^\/console([/?]|$)/.test(path), to)
  }
  t.match(await logIn('ada', '?to=//evil.example/console'), { url: '/console' })
  // A cookie that somebody has changed, and an address to log out to.
  const browser = new TestBrowser()
  const { url } = await browser.open(LOGIN, { login: 'ada', until: /oidc\/callback/ })
  const jar = browser.cookies.get(origin)
  const pending = JSON.parse(Buffer.from(String(jar?.get('millrace_oidc')), 'base64url').toString())
  jar?.set('millrace_oidc', Buffer.from(JSON.stringify({ ...pending, to: 'https://evil.example/' })).toString('base64url'))
  t.match(await browser.open(url), { url: `${origin}/console` })
  const left = await browser.open(`${idp.issuer}/session/end?client_id=millrace&post_logout_redirect_uri=https://evil.example/`)
  t.match(left.status, 400, 'the provider knows the addresses of its client')
})

t.test('a proxy in front logs in the user that it names', async (t) => {
  const ask = async (headers: Record<string, string>, cookie = '') => await fetch(`${origin}/console/session`, { headers: { 'millrace-console': '1', cookie, ...headers } })
  const named = { 'remote-user': 'pia', 'remote-email': 'pia@example.com', 'remote-groups': 'staff,other' }
  const first = await ask(named)
  t.match(await first.json(), { email: 'pia@example.com', all_projects: true })
  const cookie = first.headers.getSetCookie()[0]?.split(';')[0]
  t.equal((await ask(named, cookie)).status, 200)
  t.equal((await ask({}, cookie)).status, 204, 'the proxy no longer names her')
  const other = await ask({ ...named, 'remote-user': 'pit', 'remote-email': 'pit@example.com' }, cookie)
  t.match(await other.json(), { email: 'pit@example.com' }, 'the proxy names somebody else in her browser')
  t.equal((await ask({ ...named, 'remote-user': 'x', 'remote-groups': '' })).status, 401, 'without a role')
})
