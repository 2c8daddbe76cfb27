/** The record names who read what, and loses no line in silence. Of changes: test/security/record-replay.test.ts. */
import t from 'tap'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi } from '../testing/create-test-api.ts'
import { trimRecord } from './record-routes.ts'

const api = await createTestApi(t)

t.test('reading persons and SQL leaves a line, as do logins and refusals', async (t) => {
  const lines = async (query: string) => (await api.call('GET', `/api/record?${query}`)).body.results
  await api.call('GET', '~/persons?search=bo%40example')
  t.match(await lines('object=persons'), [{
    kind: 'read', user: 'ann@example.com', key_label: 'test', address: '127.0.0.1', project_id: api.projectId, rows: 0,
    detail: { method: 'GET', path: /\/persons$/, query: { search: 'bo@example' } }
  }])
  t.match(await api.call('POST', '/api/sql', { query: 'SELECT email FROM persons' }), { status: 503 }, 'not set up here')
  t.match(await lines('object=sql'), [{ kind: 'read', detail: { body: { query: 'SELECT email FROM persons' } } }])
  await api.call('GET', '~/feature_flags')
  t.same(await lines('object=feature_flags&kind=read'), [], 'nothing of persons')

  const logIn = async (payload: object) => await api.app.inject({ method: 'POST', url: '/console/session', headers: { 'millrace-console': '1' }, payload })
  await logIn({ personal_api_key: api.key })
  await logIn({ email: 'nobody@example.com', password: 'wrong password' })
  t.match(await lines('kind=login'), [{ object: 'personal_api_key', user: 'ann@example.com' }])
  t.match(await lines('kind=refusal'), [{ object: 'email', user: null, address: '127.0.0.1', detail: { email: 'nobody@example.com' } }])
  const odd = await logIn({ invitation: 'guessed', email: 'no\0body@example.com', password: 'wrong password' })
  t.match(odd.json(), { code: 'invalid_input', attr: 'email' }, 'no attempt, so nothing is guessed without a line')
  t.match(await api.call('GET', '/api/record?from=never'), { status: 400, body: { attr: 'from' } })
  const exported = await api.app.inject({ url: '/api/record/export?kind=login', headers: { authorization: `Bearer ${api.key}` } })
  t.match(exported.body.trim().split('\n').map((line) => JSON.parse(line)), [{ kind: 'login', user: 'ann@example.com' }])
  t.match(await lines('object=record'), [{ kind: 'read', rows: 1, detail: { path: '/api/record/export' } }])
})

t.test('so does reading persons by a test of flags, a dead letter, and SQL by the link of a board', async (t) => {
  const newest = async (object: string) => (await api.call('GET', `/api/record?object=${object}&limit=1`)).body.results
  await api.call('POST', '~/feature_flags/test', { distinct_id: 'bo' })
  t.match(await newest('persons'), [{ kind: 'read', user: 'ann@example.com', detail: { path: /\/feature_flags\/test$/, body: { distinct_id: 'bo' } } }])
  const { key } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: 'flags', scopes: ['feature_flag:read'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  const tested = await api.app.inject({ method: 'POST', url: `/api/projects/${api.projectId}/feature_flags/test`, headers: { authorization: `Bearer ${key}` }, payload: { distinct_id: 'cy' } })
  t.equal(tested.statusCode, 200)
  t.match(await newest('persons'), [{ detail: { body: { distinct_id: 'bo' } } }], 'without the scope it reads none')

  await api.call('GET', '~/dead_letters/7')
  t.match(await newest('dead_letters'), [{ kind: 'read', object_id: '7', user: 'ann@example.com' }])

  const { body: query } = await api.call('POST', '~/saved_queries', { name: 'all', query: 'SELECT distinct_id FROM events' })
  const { body: board } = await api.call('POST', '~/boards', { name: 'b', tiles: [{ kind: 'saved_query', id: query.id }] })
  const { body: link } = await api.call('POST', `~/boards/${board.id}/links`)
  const url = `/api/shared_board/answers/saved_query/${query.id}`
  t.equal((await api.app.inject({ url, headers: { authorization: `Bearer ${link.value}`, 'x-forwarded-for': '198.51.100.7' } })).statusCode, 503, 'ClickHouse is not here')
  t.match(await newest('sql'), [{ kind: 'read', user_id: null, key_id: null, address: '198.51.100.7', project_id: api.projectId, rows: 0, detail: { path: url, link: link.id } }])
})

t.test('lines do not change, and whoever deletes some leaves one', async (t) => {
  await t.rejects(api.sql`UPDATE record SET user_id = 2 WHERE user_id = 1`.execute(), /do not change/)
  await t.rejects(api.sql`TRUNCATE record`.execute(), /do not change/)
  const [{ count } = { count: 0 }] = await api.sql<{ count: number }[]>`SELECT count(*) AS count FROM record`
  await trimRecord(api.sql, { days: 1, now: Date.now() + 3 * 86_400_000 })
  t.match(await api.sql`SELECT kind, object, rows, detail FROM record`, [{ kind: 'trim', object: 'record', rows: count, detail: { first: String, last: String } }])
  await trimRecord(api.sql, { days: 0, now: Date.now() + 9e9 })
  t.match(await api.sql`SELECT count(*) AS count FROM record`, [{ count: 1 }])
})

t.test('an administrator of one project sees its lines only', async (t) => {
  const other = await api.inNewProject()
  await api.call('POST', '~/boards', { name: 'Here' })
  await other.call('POST', '~/boards', { name: 'There' })
  const { body: { value } } = await api.call('POST', '/api/personal_api_keys', { label: 'one', scopes: ['*'], scoped_teams: [other.projectId] })
  await api.keys.refresh()
  const { body } = await api.app.inject({ url: '/api/record', headers: { authorization: `Bearer ${value}` } })
  t.ok(body.includes('There'))
  t.notOk(body.includes('Here'))
})
