/** The console as the API serves it: its files, its sessions, and what a page of another origin can do with them. */
import type { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import type * as ConsoleRoutes from '../console/server/console-routes.ts'
import { createLoginLink, SESSION_IDLE_MS, SESSION_MAX_MS } from '../console/server/sessions.ts'
import { createTestApi, type TestApi } from './testing/create-test-api.ts'
import { createPersonalKey } from './projects/personal-keys.ts'

const MINE = { 'millrace-console': '1', 'sec-fetch-site': 'same-origin' }

interface Answer { status: number, body: any, cookie: string | undefined, headers: Record<string, unknown> }

async function send (
  api: TestApi, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string,
  { cookie, body, headers = MINE }: { cookie?: string, body?: object, headers?: Record<string, string> } = {}
): Promise<Answer> {
  const response = await api.app.inject({
    method,
    url,
    headers: { ...headers, ...(cookie === undefined ? {} : { cookie }) },
    ...(body === undefined ? {} : { payload: body })
  })
  const set = [response.headers['set-cookie']].flat().find((text) => text?.startsWith('millrace_session='))
  const text = response.body
  return {
    status: response.statusCode,
    body: text.startsWith('{') ? JSON.parse(text) as unknown : text,
    cookie: set?.split(';')[0],
    headers: response.headers
  }
}

async function logIn (api: TestApi, key = api.key): Promise<string> {
  const { status, cookie } = await send(api, 'POST', '/console/session', { body: { personal_api_key: key } })
  if (status !== 200 || cookie === undefined) throw new Error(`login failed with ${status}`)
  return cookie
}

async function createApi (t: Test): Promise<{ api: TestApi, advance: (ms: number) => void }> {
  let time = Date.now()
  const api = await createTestApi(t, { now: () => time })
  return { api, advance: (ms) => { time += ms } }
}

t.test('a key is exchanged for a session, which may do what the key may', async (t) => {
  const { api } = await createApi(t)

  const login = await send(api, 'POST', '/console/session', { body: { personal_api_key: api.key } })

  t.match(login, { status: 200, body: { email: 'ann@example.com', scopes: ['*'], all_projects: true, projects: [{ id: 1, name: 'Test' }] } })
  t.match(login.headers['set-cookie'], /^millrace_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/)
  const cookie = login.cookie!
  t.match(await send(api, 'GET', '/console/session', { cookie }), { status: 200, body: { email: 'ann@example.com' } })
  t.match(await send(api, 'GET', '/api/projects/1/event_definitions', { cookie }), { status: 200, body: { count: 0 } })
  const flag = { key: 'new', name: 'New', filters: { groups: [] } }
  t.match(await send(api, 'POST', '/api/projects/1/feature_flags', { cookie, body: flag }), { status: 201 }, 'writing needs no key in the body')
  const stored = JSON.stringify(await api.sql`SELECT * FROM console_sessions`)
  t.notMatch(stored, cookie.split('=')[1]!, 'the cookie is not stored')
})

t.test('behind TLS the cookie is sent over TLS only', async (t) => {
  const { api } = await createApi(t)
  const headers = { ...MINE, 'x-forwarded-proto': 'https' }

  const login = await send(api, 'POST', '/console/session', { body: { personal_api_key: api.key }, headers })

  t.match(login.headers['set-cookie'], /; Secure/)

  const atHome = await createTestApi(t, { publicUrl: 'https://millrace.example.com' })
  const behind = await send(atHome, 'POST', '/console/session', { body: { personal_api_key: atHome.key } })
  t.match(behind.headers['set-cookie'], /; Secure/, 'also when no proxy is trusted: people use the public URL')
})

t.test('refuses wrong keys and bodies with a reason', async (t) => {
  const { api } = await createApi(t)
  const post = async (body: object): Promise<Answer> => await send(api, 'POST', '/console/session', { body })

  t.match(await post({ personal_api_key: 'phx_wrong' }), { status: 401, body: { code: 'invalid_personal_api_key' }, cookie: undefined })
  t.match(await post({ personal_api_key: '' }), { status: 401 })
  t.match(await post({}), { status: 400, body: { attr: 'personal_api_key' } })
  t.match(await post({ personal_api_key: 5 }), { status: 400, body: { attr: 'personal_api_key' } })
  t.match(await post({ login_link: 'never' }), { status: 401, body: { code: 'authentication_failed' } })
  t.match(await send(api, 'GET', '/console/session'), { status: 204 })
  t.match(await send(api, 'GET', '/console/session', { cookie: 'millrace_session=guessed' }), { status: 204 })
  t.match(await send(api, 'GET', '/api/status'), { status: 401 })
})

t.test('a page of another origin can use no session', async (t) => {
  const { api } = await createApi(t)
  const cookie = await logIn(api)
  const body = { key: 'evil', name: '', filters: { groups: [] } }

  t.match(await send(api, 'POST', '/api/projects/1/feature_flags', { cookie, body, headers: {} }), { status: 401 }, 'a form cannot send the header')
  t.match(await send(api, 'GET', '/api/projects/1/feature_flags', { cookie, headers: {} }), { status: 401 })
  for (const site of ['cross-site', 'same-site']) {
    const headers = { 'millrace-console': '1', 'sec-fetch-site': site }
    t.match(await send(api, 'POST', '/api/projects/1/feature_flags', { cookie, body, headers }), { status: 403 }, site)
    t.match(await send(api, 'POST', '/console/session', { body: { personal_api_key: api.key }, headers }), { status: 403 })
    t.match(await send(api, 'DELETE', '/console/session', { cookie, headers }), { status: 403 })
  }
  const preflight = { origin: 'http://evil.example', 'access-control-request-headers': 'millrace-console', 'access-control-request-method': 'POST' }
  const response = await api.app.inject({ method: 'OPTIONS', url: '/api/projects/1/feature_flags', headers: preflight })
  t.notOk(response.headers['access-control-allow-origin'], 'no page of another origin may send the header')
})

t.test('a session ends by logging out, idling, age, and with its key', async (t) => {
  const { api, advance } = await createApi(t)
  const isAlive = async (cookie: string): Promise<boolean> => (await send(api, 'GET', '/console/session', { cookie })).status === 200

  const one = await logIn(api)
  t.match(await send(api, 'DELETE', '/console/session', { cookie: one }), { status: 204 })
  t.notOk(await isAlive(one), 'logged out')

  const idle = await logIn(api)
  advance(SESSION_IDLE_MS - 1000)
  t.ok(await isAlive(idle))
  advance(SESSION_IDLE_MS - 1000)
  t.ok(await isAlive(idle), 'its use was noticed')
  advance(SESSION_IDLE_MS + 1000)
  t.notOk(await isAlive(idle), 'idle')

  const old = await logIn(api)
  for (let passed = 0; passed < SESSION_MAX_MS; passed += SESSION_IDLE_MS / 2) {
    t.ok(await isAlive(old))
    advance(SESSION_IDLE_MS / 2)
  }
  t.notOk(await isAlive(old), 'a working day is over')
  await logIn(api)
  t.match(await api.sql`SELECT count(*) AS count FROM console_sessions`, [{ count: 1 }], 'what has ended is removed')

  const { key, id } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: '', scopes: ['*'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  const revoked = await logIn(api, key)
  await api.sql`UPDATE personal_api_keys SET revoked_at = now() WHERE id = ${id}`
  await api.keys.refresh()
  t.match(await send(api, 'GET', '/api/projects/1/feature_flags', { cookie: revoked }), { status: 401, body: { detail: /revoked/ } })
})

t.test('a login replaces the session of before, so that nobody can plant one', async (t) => {
  const { api } = await createApi(t)
  const planted = await logIn(api)

  const { cookie } = await send(api, 'POST', '/console/session', { cookie: planted, body: { personal_api_key: api.key } })

  t.not(cookie, planted)
  t.match(await send(api, 'GET', '/console/session', { cookie: planted }), { status: 204 })
})

t.test('a link logs in once, and not after its time', async (t) => {
  const { api, advance } = await createApi(t)
  const link = async (): Promise<string> =>
    await createLoginLink(api.sql, { personalKey: api.key, lifetimeMs: 60_000, now: Date.now() })
  const use = async (token: string): Promise<Answer> => await send(api, 'POST', '/console/session', { body: { login_link: token } })
  const [good, late] = [await link(), await link()]

  t.match(await use(good), { status: 200, body: { email: 'ann@example.com' }, cookie: /millrace_session=/ })
  t.match(await use(good), { status: 401, body: { code: 'authentication_failed' } })
  advance(600_000)
  t.match(await use(late), { status: 401 })
})

t.test('a key of some projects sees those only, and nothing of the installation', async (t) => {
  const { api } = await createApi(t)
  const other = await api.inNewProject()
  const limited = await createPersonalKey(api.sql, {
    email: 'ann@example.com', label: '', scopes: ['project:read', 'dead_letter:read'], projectIds: [other.projectId], expiresAt: null
  })
  await api.keys.refresh()
  const cookie = await logIn(api, limited.key)

  t.match((await send(api, 'GET', '/console/session', { cookie })).body, { all_projects: false, projects: [{ id: other.projectId }] })
  t.match(await send(api, 'GET', '/api/status', { cookie }), { status: 403 })
  t.match(await send(api, 'GET', '/api/projects/1/dead_letters', { cookie }), { status: 404 })
  t.match(await send(api, 'GET', `/api/projects/${other.projectId}/feature_flags`, { cookie }), { status: 403 })
})

t.test('serves the page at every address of the console, and its files for good', async (t) => {
  const { api } = await createApi(t)

  t.match(await send(api, 'GET', '/'), { status: 302, headers: { location: '/console' } })
  for (const url of ['/console', '/console/', '/console/projects/1/dead-letters/5']) {
    t.match(await send(api, 'GET', url), {
      status: 200,
      headers: { 'content-type': /^text\/html/, 'cache-control': 'no-cache', 'content-security-policy': /default-src 'none'; script-src 'self'; style-src 'self'/ }
    })
  }
  const page = String((await send(api, 'GET', '/console')).body)
  t.notMatch(page, /<script>|<style>| on\w+=/, 'nothing is inline')
  const script = /src="(\/console\/assets\/[^"]+)"/.exec(page)![1]!
  for (const [accepted, encoding] of [['br, gzip', 'gzip'], ['gzip;q=0.5', 'gzip'], ['br, gzip;q=0', undefined], ['', undefined]] as const) {
    const file = await api.app.inject({ url: script, headers: { 'accept-encoding': accepted } })
    t.match(file, { statusCode: 200, headers: { 'cache-control': /immutable/, vary: 'accept-encoding' } })
    t.equal(file.headers['content-encoding'], encoding)
  }
  t.match(await send(api, 'GET', '/console/assets/nothing.js'), { status: 404, body: { code: 'not_found' } })
})

t.test('live events and SQL are for sessions of the console itself, with the scope, of the project', async (t) => {
  const { api } = await createApi(t)
  const uuid = '0193a5b2-7c1d-4e8f-9abc-000000000001'
  const logInWith = async (scopes: string[], projectIds: number[] | null): Promise<string> => {
    const { key } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: '', scopes, projectIds, expiresAt: null })
    await api.keys.refresh()
    return await logIn(api, key)
  }
  const other = await api.inNewProject()
  const cookie = await logIn(api)
  const [unscoped, elsewhere] = [await logInWith(['feature_flag:read'], null), await logInWith(['event:read'], [other.projectId])]

  for (const path of ['live', uuid]) {
    const url = `/api/projects/1/events/${path}`
    t.match(await send(api, 'GET', url), { status: 401 }, `${path} without a session`)
    t.match(await send(api, 'GET', url, { cookie, headers: {} }), { status: 401 }, `${path} without the header`)
    t.match(await send(api, 'GET', url, { cookie, headers: { ...MINE, 'sec-fetch-site': 'cross-site' } }), { status: 403 }, path)
    t.match(await send(api, 'GET', url, { cookie: unscoped }), { status: 403, body: { code: 'permission_denied' } }, `${path} without the scope`)
    t.match(await send(api, 'GET', url, { cookie: elsewhere }), { status: 404 }, `${path} with a key for another project`)
    t.match(await send(api, 'GET', `/api/projects/99/events/${path}`, { cookie }), { status: 404 }, `${path} of no project`)
  }
  t.match(await send(api, 'GET', `/api/projects/1/events/live?event=${'x'.repeat(401)}`, { cookie }), { status: 400, body: { attr: 'event' } })
  t.match(await send(api, 'GET', '/api/projects/1/events/x', { cookie }), { status: 400, body: { attr: 'uuid' } })
  t.match(await send(api, 'GET', `/api/projects/1/events/${uuid}`, { cookie }), { status: 503, body: { code: 'clickhouse_unavailable' } })
  const query = { cookie, body: { query: 'SELECT 1' } }
  t.match(await send(api, 'POST', '/api/sql', query), { status: 503, body: { code: 'sql_not_set_up' } })
  t.match(await send(api, 'POST', '/api/sql', { ...query, headers: { ...MINE, 'sec-fetch-site': 'cross-site' } }), { status: 403 })
  t.match((await send(api, 'GET', '/api/projects/1/feature_flags', { cookie })).headers, { 'cache-control': 'no-store' })
})

t.test('the pages are bundled when the API listens, before anybody asks for one', async (t) => {
  // Loaded anew: other files of this process have bundled them.
  const module = `../console/server/console-routes.ts?${String(process.hrtime.bigint())}`
  const { consoleRoutes } = await import(module) as typeof ConsoleRoutes
  const app = fastify()
  t.teardown(async () => await app.close())
  await app.register(consoleRoutes)
  const spawned = Promise.withResolvers<string>()
  const onProcess = (message: unknown): void => {
    const { process: child } = message as { process: ChildProcess }
    // The message comes before the process has its name.
    queueMicrotask(() => { if (child.spawnfile.includes('esbuild')) spawned.resolve(child.spawnfile) })
  }
  subscribe('child_process', onProcess)
  t.teardown(() => unsubscribe('child_process', onProcess))

  await app.listen({ port: 0, host: '127.0.0.1' })

  t.match(await spawned.promise, /esbuild/)
  t.match(await app.inject('/console'), { statusCode: 200, body: /<div id="app">/ })
})
