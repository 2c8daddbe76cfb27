import t from 'tap'
import { waitFor } from '../../test/support/wait-for.ts'
import { createPersonalKey, type NewPersonalKey } from '../projects/personal-keys.ts'
import { createProject } from '../projects/project-routes.ts'
import { createTestApi, send, type TestAnswer, type TestApi } from '../testing/create-test-api.ts'

const NEW_KEY: NewPersonalKey = { email: 'ann@example.com', label: '', scopes: ['*'], projectIds: null, expiresAt: null }

const shared = await createTestApi(t)

async function ask (
  api: TestApi, key: string | undefined, project: string | number = api.projectId
): Promise<TestAnswer> {
  const headers = key === undefined ? {} : { authorization: key.includes(' ') ? key : `Bearer ${key}` }
  return await send(api.app, { method: 'GET', url: `/api/projects/${project}/experiments`, headers })
}

t.test('answers each kind of bad key with its status and code', async (t) => {
  const api = await shared.inNewProject()
  const other = await createProject(api.sql, { name: 'Other' })
  const expired = await createPersonalKey(api.sql, { ...NEW_KEY, expiresAt: new Date(Date.now() - 1) })
  const limited = await createPersonalKey(api.sql, { ...NEW_KEY, projectIds: [api.projectId] })
  const narrow = await createPersonalKey(api.sql, { ...NEW_KEY, scopes: ['feature_flag:write'] })
  await api.keys.refresh()

  t.match(await ask(api, undefined), { status: 401, headers: { 'www-authenticate': 'Bearer' }, body: { type: 'authentication_error', code: 'not_authenticated', attr: null } })
  t.match(await ask(api, 'Basic abc'), { status: 401, body: { type: 'authentication_error', code: 'authentication_failed' } })
  t.match(await ask(api, 'Bearer '), { status: 401, body: { type: 'authentication_error', code: 'authentication_failed' } })
  t.match(await ask(api, 'phx_unknown'), { status: 401, body: { type: 'authentication_error', code: 'invalid_personal_api_key' } })
  t.match(await ask(api, api.projectKey), { status: 401, body: { code: 'invalid_personal_api_key' } })
  t.match(await ask(api, expired.key), { status: 401, body: { code: 'invalid_personal_api_key', detail: /expired/ } })
  t.match(await ask(api, narrow.key), { status: 403, body: { type: 'authentication_error', code: 'permission_denied', detail: /experiment:read/ } })
  t.match(await ask(api, limited.key, other.id), { status: 404, body: { type: 'invalid_request', code: 'not_found' } })
  t.match(await ask(api, api.key, 4711), { status: 404, body: { code: 'not_found' } })
  t.match(await ask(api, api.key, 'zero'), { status: 404, body: { code: 'not_found' } })
})

t.test('reads the key from header, body and query, in this order', async (t) => {
  const api = await shared.inNewProject()
  const url = `/api/projects/${api.projectId}/experiments`

  t.equal((await ask(api, api.key)).status, 200)
  t.equal((await ask(api, `bearer ${api.key}`)).status, 200)
  t.equal((await send(api.app, { method: 'GET', url: `${url}?personal_api_key=${api.key}` })).status, 200)
  const body = { personal_api_key: api.key, name: 'From the body', feature_flag_key: 'from-body' }
  t.equal((await send(api.app, { method: 'POST', url, payload: body })).status, 201)
  t.match(await send(api.app, { method: 'POST', url, payload: body, headers: { authorization: 'Bearer wrong' } }), { status: 401 })
})

t.test('takes @current for the first project the key opens', async (t) => {
  const api = await shared.inNewProject()
  const other = await createProject(api.sql, { name: 'Other' })
  const { key } = await createPersonalKey(api.sql, { ...NEW_KEY, projectIds: [other.id] })
  await waitFor(async () => (await ask(api, key, other.id)).status === 200)

  await send(api.app, {
    method: 'POST', url: '/api/projects/@current/experiments', headers: { authorization: `Bearer ${key}` },
    payload: { name: 'Current', feature_flag_key: 'current' }
  })

  t.match((await ask(api, key, other.id)).body, { count: 1 })
})

t.test('refuses a revoked key as soon as the change is announced', async (t) => {
  const api = await shared.inNewProject()
  const { id, key } = await createPersonalKey(api.sql, NEW_KEY)
  await api.keys.refresh()
  t.equal((await ask(api, key)).status, 200)

  await api.sql`UPDATE personal_api_keys SET revoked_at = now() WHERE id = ${id}`

  await waitFor(async () => (await ask(api, key)).status === 401)
  t.match((await ask(api, key)).body, { code: 'invalid_personal_api_key', detail: /revoked/ })
})

t.test('still gets notifications of changes after Postgres closed the connection', async (t) => {
  const api = await createTestApi(t)
  const { id, key } = await createPersonalKey(api.sql, NEW_KEY)
  await api.keys.refresh()
  await ask(api, key)
  const listens = api.sql`SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`

  const [before] = await listens
  await api.sql`SELECT pg_terminate_backend(${before?.pid})`
  await waitFor(async () => {
    const [after] = await api.sql`SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`
    return after !== undefined && after.pid !== before?.pid
  })
  await api.sql`UPDATE personal_api_keys SET revoked_at = now() WHERE id = ${id}`

  await waitFor(async () => (await ask(api, key)).status === 401)
})

t.test('records the last use of a key once an hour', async (t) => {
  let now = Date.now()
  const api = await createTestApi(t, { now: () => now })
  const lastUse = async (): Promise<number | undefined> => {
    const [row] = await api.sql`SELECT last_used_at FROM personal_api_keys`
    return row?.last_used_at?.getTime()
  }

  await ask(api, api.key)
  const first = await waitFor(lastUse)
  t.equal(first, now)
  now += 3_000_000
  await ask(api, api.key)
  t.equal(await lastUse(), first)
  now += 1_000_000
  await ask(api, api.key)

  await waitFor(async () => await lastUse() === now)
})

t.test('limits the requests of each key, says so in headers, and lets other keys pass', async (t) => {
  const api = await createTestApi(t, { managementRateLimit: 2 })
  const { key } = await createPersonalKey(api.sql, NEW_KEY)
  await api.keys.refresh()

  const first = await ask(api, api.key)
  await ask(api, api.key)
  const third = await ask(api, api.key)

  t.match(first, { status: 200, headers: { 'x-ratelimit-limit': /^2$/, 'x-ratelimit-remaining': /^1$/ } })
  t.match(third, { status: 429, headers: { 'retry-after': /^\d+$/ }, body: { type: 'throttled_error', code: 'throttled', attr: null } })
  t.equal((await ask(api, key)).status, 200)
})
