import t from 'tap'
import { createTestApi, send, type TestAnswer } from '../testing/create-test-api.ts'
import { createPersonalKey } from './personal-keys.ts'

const NOW = Date.now()
const api = await createTestApi(t, { now: () => NOW })

/** Sends as another key. */
async function callAs (key: string, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object): Promise<TestAnswer> {
  return await send(api.app, { method, url, headers: { authorization: `Bearer ${key}` }, ...(body === undefined ? {} : { payload: body }) })
}

async function createKey (
  scopes: string[], projectIds: number[] | null = null, email = api.user.email
): Promise<{ id: string, key: string }> {
  const created = await createPersonalKey(api.sql, { email, label: scopes.join(), scopes, projectIds, expiresAt: null })
  await api.keys.refresh()
  return created
}

t.test('a project is created with a key, which is rotated and has its end', async (t) => {
  const { status, body: project } = await api.call('POST', '/api/projects/', { name: 'Shop', timezone: 'europe/berlin' })
  await api.keys.refresh()

  t.match({ status, project }, { status: 201, project: { name: 'Shop', timezone: 'Europe/Berlin', api_token: /^phc_/, uuid: String } })
  t.match((await api.call('GET', `/api/projects/${project.id}/`)).body, project)
  const rotated = await api.call('POST', `/api/projects/${project.id}/rotate_key/`, { grace_seconds: 60 })
  const end = new Date(NOW + 60_000).toISOString()
  t.match(rotated, { status: 200, body: { api_key: /^phc_/, old_keys: [project.api_token], old_keys_expire_at: end } })
  t.match((await api.call('GET', `/api/projects/${project.id}/keys/`)).body.results, [
    { api_key: rotated.body.api_key, kind: 'project', expires_at: null }, { api_key: project.api_token, expires_at: end }
  ])
})

t.test('a project gets another name and time zone, each alone', async (t) => {
  const { body: { id } } = await api.call('POST', '/api/projects/', { name: 'First' })
  await api.keys.refresh()

  t.match(await api.call('PATCH', `/api/projects/${id}/`, { timezone: 'america/santiago' }), { status: 200, body: { id, name: 'First', timezone: 'America/Santiago' } })
  t.match(await api.call('PATCH', `/api/projects/${id}/`, { name: 'Shop' }), { status: 200, body: { name: 'Shop', timezone: 'America/Santiago' } })
  t.match(await api.call('PATCH', `/api/projects/${id}/`, { week_starts: 'sunday' }), { status: 200, body: { name: 'Shop', week_starts: 'sunday' } })
  t.match(await api.call('PATCH', `/api/projects/${id}/`, { week_starts: 'friday' }), { status: 400, body: { attr: 'week_starts' } })
  t.match(await api.call('PATCH', `/api/projects/${id}/`, { timezone: 'Mars/Olympus' }), { status: 400, body: { attr: 'timezone' } })
  const other = await createKey(['project:write'], [api.projectId])
  t.equal((await callAs(other.key, 'PATCH', `/api/projects/${id}/`, { name: 'Mine' })).status, 404)
  const reader = await createKey(['project:read'], [id])
  t.equal((await callAs(reader.key, 'PATCH', `/api/projects/${id}/`, { name: 'Mine' })).status, 403)
})

t.test('refuses projects and rotations that make no sense, with the field', async (t) => {
  const refused = async (url: string, body: object, attr: string): Promise<unknown> =>
    t.match(await api.call('POST', url, body), { status: 400, body: { attr } })

  await refused('/api/projects/', {}, 'name')
  await refused('/api/projects/', { name: '' }, 'name')
  await refused('/api/projects/', { name: 'n', timezone: 'Mars/Olympus' }, 'timezone')
  await refused('~/rotate_key/', { grace_seconds: -1 }, 'grace_seconds')
  const limited = await createKey(['project:write'], [api.projectId])
  t.match(await callAs(limited.key, 'POST', '/api/projects/', { name: 'Mine' }), { status: 403, body: { code: 'permission_denied' } })
})

t.test('a personal key is created, shown once, used, rotated and revoked', async (t) => {
  const created = await api.call('POST', '/api/personal_api_keys/', {
    label: 'ci', scopes: ['project:read', 'user:read'], scoped_teams: [api.projectId], expires_at: new Date(NOW + 3_600_000).toISOString()
  })
  await api.keys.refresh()

  t.match(created, { status: 201, body: { value: /^phx_/, user: { email: api.user.email }, scoped_teams: [api.projectId], last_used_at: null, is_current: false } })
  const { id, value } = created.body
  t.match((await callAs(value, 'GET', '/api/projects/')).body, { count: 1 })
  const [listed] = (await api.call('GET', '/api/personal_api_keys/')).body.results
  t.match(listed, { id, label: 'ci', mask_value: `${value.slice(0, 4)}...${value.slice(-4)}` })
  t.notMatch(JSON.stringify(listed), value)

  const rotated = await api.call('POST', `/api/personal_api_keys/${id}/rotate/`, { grace_seconds: 60 })
  t.match(rotated, { status: 201, body: { label: 'ci', scopes: ['project:read', 'user:read'], expires_at: created.body.expires_at } })
  const [old] = (await api.call('GET', '/api/personal_api_keys/')).body.results.filter((key: any) => key.id === id)
  t.equal(old.expires_at, new Date(NOW + 60_000).toISOString(), 'the old key has an end')

  t.match(await api.call('DELETE', `/api/personal_api_keys/${rotated.body.id}/`), { status: 204 })
  await api.keys.refresh()
  t.match(await callAs(rotated.body.value, 'GET', '/api/projects/'), { status: 401 })
  t.match(await callAs(value, 'GET', '/api/projects/'), { status: 200 }, 'the old one goes on until its end')
  t.match(await api.call('POST', `/api/personal_api_keys/${rotated.body.id}/rotate/`, {}), { status: 400, body: { attr: 'id' } })
})

t.test('keys are listed page by page while others are made', async (t) => {
  const all = async () => (await api.call('GET', '/api/personal_api_keys')).body.results.map(({ id }: { id: string }) => id)
  for (let n = 0; n < 3; n++) await createKey(['user:read'])
  const before = await all()

  const { body: first } = await api.call('GET', '/api/personal_api_keys?limit=2')
  await createKey(['user:read'])
  const { body: second } = await api.call('GET', new URL(first.next).pathname + new URL(first.next).search)

  t.same([...first.results, ...second.results].map(({ id }) => id), before.slice(0, 4), 'none twice')
  t.match(await api.call('GET', '/api/personal_api_keys?after=x'), { status: 400, body: { attr: 'after' } })
})

t.test('a limited key cannot make, take or end more than it has', async (t) => {
  const all = await createKey(['*'])
  const limited = await createKey(['user:write', 'feature_flag:read'], [api.projectId])
  const make = async (body: object): Promise<TestAnswer> => await callAs(limited.key, 'POST', '/api/personal_api_keys/', { label: 'n', ...body })

  t.match(await make({ scopes: ['*'] }), { status: 400, body: { attr: 'scopes' } })
  t.match(await make({ scopes: ['feature_flag:write'] }), { status: 400, body: { attr: 'scopes' } })
  t.match(await make({ scopes: ['user:read'], scoped_teams: [api.projectId, 999] }), { status: 400, body: { attr: 'scopes' } })
  t.match(await make({ scopes: ['user:read'] }), { status: 201, body: { scoped_teams: [api.projectId] } }, 'all means all of its own')
  t.match(await callAs(limited.key, 'DELETE', `/api/personal_api_keys/${all.id}/`), { status: 403 })
  t.match(await callAs(limited.key, 'POST', `/api/personal_api_keys/${all.id}/rotate/`, {}), { status: 403 })
  t.match(await callAs(limited.key, 'DELETE', `/api/personal_api_keys/${limited.id}/`), { status: 204 }, 'itself it may')
})

t.test('only an administrator sees and makes users and keys of others', async (t) => {
  t.match(await api.call('POST', '/api/users/', { email: 'Bo@Example.com', first_name: 'Bo' }), { status: 201, body: { email: 'bo@example.com', keys: 0 } })
  t.match(await api.call('POST', '/api/users/', { email: 'bo@example.com' }), { status: 400, body: { code: 'unique', attr: 'email' } })
  t.match(await api.call('POST', '/api/users/', { email: 'bobo' }), { status: 400, body: { attr: 'email' } })
  const bo = await createKey(['user:write'], null, 'bo@example.com')
  const { body: { results: [ann, { id: boId }] } } = await api.call('GET', '/api/users/')

  t.match((await callAs(bo.key, 'GET', '/api/users/')).body.results.map(({ email }: any) => email), ['bo@example.com'])
  t.match((await callAs(bo.key, 'GET', '/api/personal_api_keys/')).body, { count: 1, results: [{ id: bo.id, is_current: true }] })
  t.match(await callAs(bo.key, 'POST', '/api/personal_api_keys/', { label: 'n', scopes: ['user:read'], user_id: ann.id }), { status: 400, body: { attr: 'user_id' } })
  const [foreign] = (await api.call('GET', '/api/personal_api_keys/')).body.results.filter((key: any) => key.user.id === ann.id)
  t.match(await callAs(bo.key, 'DELETE', `/api/personal_api_keys/${foreign.id}/`), { status: 404 }, 'existence is not disclosed')
  t.match(await api.call('POST', '/api/personal_api_keys/', { label: 'for bo', scopes: ['user:read'], user_id: boId }), { status: 201, body: { user: { id: boId } } })
  t.match(await api.call('POST', '/api/personal_api_keys/', { label: 'n', scopes: ['user:read'], user_id: 9999 }), { status: 400, body: { attr: 'user_id' } })
  t.match(await api.call('POST', '/api/personal_api_keys/', { label: 'n', scopes: ['users:read'] }), { status: 400, body: { attr: 'scopes' } })
  t.match(await api.call('POST', '/api/personal_api_keys/', { label: 'n', scopes: ['*'], scoped_teams: [9999] }), { status: 400, body: { attr: 'scoped_teams' } })
  t.match(await api.call('POST', '/api/personal_api_keys/', { label: 'n', scopes: ['*'], expires_at: '2020-01-01' }), { status: 400, body: { attr: 'expires_at' } })
})

/** Makes a key with another one. */
async function makeWith (
  key: string, body: object = {}
): Promise<{ id: string, value: string, expires_at: string | null }> {
  const { status, body: made } = await callAs(key, 'POST', '/api/personal_api_keys/', { label: 'made', scopes: ['user:write'], ...body })
  t.equal(status, 201, made.detail)
  await api.keys.refresh()
  return made
}

async function statuses (...keys: string[]): Promise<number[]> {
  await api.keys.refresh()
  return await Promise.all(keys.map(async (key) => (await callAs(key, 'GET', '/api/personal_api_keys/')).status))
}

t.test('the keys that a key made are revoked with it, and those that they made; others are not', async (t) => {
  const leaked = await createKey(['user:write'])
  const child = await makeWith(leaked.key)
  const grandchild = await makeWith(child.value)
  const other = await makeWith(api.key)
  t.same(await statuses(leaked.key, child.value, grandchild.value, other.value), [200, 200, 200, 200])

  t.equal((await api.call('DELETE', `/api/personal_api_keys/${leaked.id}/`)).status, 204)

  t.same(await statuses(leaked.key, child.value, grandchild.value, other.value), [401, 401, 401, 200])
})

t.test('a key lasts no longer than the one that made it', async (t) => {
  const end = new Date(NOW + 3_600_000)
  const short = await createPersonalKey(api.sql, {
    email: api.user.email, label: 'short', scopes: ['user:write'], projectIds: null, expiresAt: end
  })
  const lasting = await createKey(['user:write'])

  t.equal((await makeWith(short.key)).expires_at, end.toISOString(), 'without an end it gets that of its maker')
  const sooner = new Date(NOW + 60_000).toISOString()
  t.equal((await makeWith(short.key, { expires_at: sooner })).expires_at, sooner)
  t.match(await callAs(short.key, 'POST', '/api/personal_api_keys/', { label: 'n', scopes: ['user:read'], expires_at: new Date(NOW + 3_600_001).toISOString() }), {
    status: 400, body: { attr: 'expires_at', detail: 'A key cannot create a key that expires later than itself.' }
  })
  t.match(await callAs(short.key, 'POST', `/api/personal_api_keys/${lasting.id}/rotate/`, {}), { status: 403, body: { detail: 'This key expires later than yours.' } })
  t.equal((await makeWith(lasting.key)).expires_at, null)
})

t.test('a rotation leaves no way out: its key is revoked with who rotated, and with what made the old one', async (t) => {
  const rotate = async (as: string, id: string): Promise<{ id: string, value: string }> => {
    const { status, body } = await callAs(as, 'POST', `/api/personal_api_keys/${id}/rotate/`, {})
    t.equal(status, 201, body.detail)
    await api.keys.refresh()
    return body
  }
  const [leaked, rotator] = [await createKey(['user:write']), await createKey(['user:write'])]
  const itself = await rotate(leaked.key, leaked.id)
  await api.call('DELETE', `/api/personal_api_keys/${leaked.id}/`)
  t.same(await statuses(itself.value), [401], 'a key that replaced itself')

  const maker = await createKey(['user:write'])
  const service = await makeWith(maker.key)
  const ofService = await makeWith(service.value)
  const replaced = await rotate(rotator.key, service.id)
  await api.call('DELETE', `/api/personal_api_keys/${service.id}/`)
  t.same(await statuses(replaced.value, ofService.value), [200, 401], 'the old one is revoked before its end, with what it made')
  const again = await rotate(rotator.key, replaced.id)
  const ofReplaced = await makeWith(replaced.value)
  await api.call('DELETE', `/api/personal_api_keys/${maker.id}/`)
  t.same(await statuses(again.value, ofReplaced.value, rotator.key), [401, 401, 200])

  const lasting = await createKey(['user:write'])
  const taken = await rotate(rotator.key, lasting.id)
  const ofLasting = await makeWith(lasting.key)
  const next = await rotate(api.key, lasting.id)
  await api.call('DELETE', `/api/personal_api_keys/${rotator.id}/`)
  t.same(await statuses(taken.value, next.value), [401, 200])
  await api.call('DELETE', `/api/personal_api_keys/${next.id}/`)
  t.same(await statuses(next.value, ofLasting.value), [401, 401], 'the new one stands for the old one')
})

t.test('a key that is revoked while it makes others leaves none', async (t) => {
  const leaked = await createKey(['user:write'])
  const made = Array.from({ length: 20 }, async () =>
    await callAs(leaked.key, 'POST', '/api/personal_api_keys/', { label: 'race', scopes: ['user:read'] }))
  const [, ...answers] = await Promise.all([api.call('DELETE', `/api/personal_api_keys/${leaked.id}/`), ...made])

  t.ok(answers.every(({ status }) => status === 201 || status === 401))
  t.match(await api.sql`SELECT count(*) AS count FROM personal_api_keys WHERE label = 'race' AND revoked_at IS NULL`, [{ count: 0 }])
})
