import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send, type TestAnswer } from '../testing/create-test-api.ts'
import { createTileAnswers } from './tile-answers.ts'

const { url, client } = await createTestClickHouse(t)
const analystUrl = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href
let clock = Date.parse('2026-03-05T12:00:00Z')
const api = await createTestApi(t, { clickhouse: client, analystUrl, now: () => clock })
const definition = { kind: 'trend', version: 1, range: { last: 3, unit: 'day' }, series: [{ event: 'paid', measure: 'events' }] }

async function store (event: string, projectId = api.projectId): Promise<void> {
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ project_id: projectId, uuid: crypto.randomUUID(), event, distinct_id: 'ann', timestamp: '2026-03-05 10:00:00', received_at: '2026-03-05 10:00:00', properties: '{}' }]
  })
}

async function reach (through: string): Promise<void> {
  await client.insert({
    table: 'watermark_reached', format: 'JSONEachRow',
    values: [{ id: 0, complete_through: through, state: { updated_at: '2100-01-01', held_by: 'ingest' } }]
  })
}

async function byLink (key: string, path = '', method: 'GET' | 'POST' = 'GET', base = '/api/shared_board'): Promise<TestAnswer> {
  return await send(api.app, { method, url: base + path, headers: { authorization: `Bearer ${key}` } })
}

async function keyFor (projectIds: number[] | null, scopes = ['query:write']): Promise<string> {
  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes, projectIds, expiresAt: null })
  await api.keys.refresh()
  return key
}

let boards = 0

/** A board of a question and a saved query. */
async function createBoard (in_ = api): Promise<{ id: number, question: number, query: number }> {
  const name = `b${++boards}`
  const { body: { id: question } } = await in_.call('POST', '~/questions', { name, definition })
  const { body: { id: query } } = await in_.call('POST', '~/saved_queries', { name, query: 'SELECT toUInt64(18446744073709551615) AS n, \'=1+1\' AS s' })
  const tiles = [{ kind: 'question', id: question }, { kind: 'saved_query', id: query }]
  const { status, body } = await in_.call('POST', '~/boards', { name, tiles })
  t.equal(status, 201)
  return { id: body.id, question, query }
}

await store('paid')
await reach('2026-03-05 11:59:00')

t.test('a board is stored, its parts change places, and what was deleted meanwhile hinders nothing', async (t) => {
  const { id, question, query } = await createBoard()
  t.match((await api.call('GET', `~/boards/${id}`)).body, { tiles: [{ kind: 'question', id: question }, { kind: 'saved_query', id: query }], description: '', created_by: { email: 'ann@example.com' } })
  await api.call('DELETE', `~/questions/${question}`)
  const moved = [{ kind: 'saved_query', id: query }, { kind: 'question', id: question }]
  t.match(await api.call('PATCH', `~/boards/${id}`, { tiles: moved }), { status: 200, body: { tiles: moved } })
  t.match((await api.call('GET', `~/boards/${id}/answers/question/${question}`)).status, 404)
  for (const tiles of [[{ kind: 'board', id: 1 }], [{ kind: 'question' }], [moved[0], moved[0]]]) t.equal((await api.call('PATCH', `~/boards/${id}`, { tiles })).status, 400)
  t.equal((await api.call('DELETE', `~/boards/${id}`)).status, 204)
})

t.test('what another project has, or nobody, is refused with the name of its field', async (t) => {
  const { id, question, query } = await createBoard()
  const [other] = await api.sql<[{ id: number }]>`INSERT INTO projects (name) VALUES ('other') RETURNING id`
  const [elsewhere] = await api.sql<[{ id: number }]>`
    INSERT INTO questions (project_id, name, definition) SELECT ${other.id}, name, definition FROM questions WHERE id = ${question} RETURNING id`
  const mine = { kind: 'saved_query', id: query }
  for (const strange of [{ kind: 'question', id: elsewhere.id }, { kind: 'question', id: 2_000_000_000 }]) {
    const refused = { status: 400, body: { attr: 'tiles__1__id', detail: `The project has no question ${strange.id}.` } }
    t.match(await api.call('PATCH', `~/boards/${id}`, { tiles: [mine, strange] }), refused)
    t.match(await api.call('POST', '~/boards', { name: 'strange', tiles: [mine, strange] }), refused)
  }
})

t.test('answers are used again until the watermark is a minute past them, or for ten minutes', async (t) => {
  const { id, question, query } = await createBoard()
  const path = `~/boards/${id}/answers/question/${question}`
  const ask = async (suffix = ''): Promise<[boolean, number, string]> => {
    const { body } = await api.call('GET', path + suffix)
    return [body.is_cached, body.question.answer.lines[0].total, body.question.complete_through.slice(11, 19)]
  }
  t.same(await ask(), [false, 1, '11:59:00'])
  await store('paid')
  await reach('2026-03-05 12:00:00')
  t.same(await ask(), [true, 1, '11:59:00'])
  await reach('2026-03-05 12:00:01')
  t.same(await ask(), [false, 2, '12:00:01'])
  t.same(await ask('?refresh=true'), [false, 2, '12:00:01'])
  clock += 600_001
  t.same(await ask(), [false, 2, '12:00:01'])
  await api.call('PATCH', `~/questions/${question}`, { definition: { ...definition, series: [{ event: 'gone', measure: 'events' }] } })
  t.same(await ask(), [false, 0, '12:00:01'], 'another definition')
  const { body } = await api.call('GET', `~/boards/${id}/answers/saved_query/${query}`)
  t.match(body, { question: null, result: { columns: [['n', 's'], ['UInt64', 'String']], rows: [['18446744073709551615', '=1+1']], cut: null } })
})

t.test('viewers at the same moment share one query; one that fails is not kept', async (t) => {
  const { id, question, query } = await createBoard()
  const answers = await Promise.all([1, 2, 3, 4].map(async () => await api.call('GET', `~/boards/${id}/answers/question/${question}`)))
  t.same(answers.map(({ body }) => body.is_cached).sort(), [false, true, true, true], 'whoever comes first')
  await api.call('PATCH', `~/saved_queries/${query}`, { query: 'SELECT throwIf(1)' })
  const path = `~/boards/${id}/answers/saved_query/${query}`
  t.match(await api.call('GET', path), { status: 400, body: { code: 'query_failed' } })
  await api.call('PATCH', `~/saved_queries/${query}`, { query: 'SELECT {from:DateTime}' })
  const detail = 'Query parameter `from` was not set. Give the parameter a value, and save the query with it.'
  t.match(await api.call('GET', path), { status: 400, body: { detail } }, 'as alerts need it')
  await api.call('PATCH', `~/saved_queries/${query}`, { query: 'SELECT throwIf(1)' })
  t.match(await api.call('GET', path), { status: 400, body: { code: 'query_failed' } })
})

t.test('a link shows its board and opens nothing else, in no project', async (t) => {
  const { id, question, query } = await createBoard()
  const other = await createBoard()
  const { status, body: { value: key, id: link } } = await api.call('POST', `~/boards/${id}/links`)
  t.equal(status, 201)
  t.match(key, /^phl_\w{43}$/)
  const shown = await byLink(key)
  t.match(shown, { status: 200, body: { tiles: [{ id: question }, { id: query }], timezone: 'UTC' }, headers: { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' } })
  t.notOk(shown.headers['set-cookie'])
  t.match((await byLink(key, `/answers/question/${question}`)).body, { question: { sql: '', answer: { kind: 'trend' } } })
  t.match((await byLink(key, `/answers/saved_query/${query}`)).body, { result: { rows: [['18446744073709551615', '=1+1']] } })
  t.equal((await byLink(key, `/answers/question/${other.question}`)).status, 404)

  const { paths } = (await send(api.app, { method: 'GET', url: '/api/schema' })).body as { paths: Record<string, Record<string, { security?: object[] }>> }
  const closed: string[] = []
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { security = [] }] of Object.entries(methods)) {
      if (!JSON.stringify(security).includes('personalApiKey')) continue
      const address = path.replace('{project_id}', String(api.projectId)).replaceAll(/\{id\}/g, String(id)).replaceAll(/\{\w+\}/g, '1')
      const answers = await Promise.all([{ authorization: `Bearer ${key}` }, {}].map(async (headers) =>
        await api.app.inject({ method: method.toUpperCase() as 'GET', url: `${address}?personal_api_key=${key}`, headers: { 'content-type': 'application/json', ...headers }, ...method === 'get' || method === 'delete' ? {} : { payload: { personal_api_key: key } } })))
      for (const { statusCode } of answers) if (statusCode !== 401) t.fail(`${method} ${path} answers ${statusCode}`)
      closed.push(path)
    }
  }
  t.ok(closed.length > 100, `${closed.length} operations refuse it`)
  t.equal((await send(api.app, { method: 'POST', url: '/console/session', headers: { 'millrace-console': '1' }, payload: { personal_api_key: key } })).status, 401)
  for (const wrong of [api.key, api.projectKey, 'phl_', `${key}x`]) t.equal((await byLink(wrong)).status, 401)
  t.same(await api.sql`SELECT 1 FROM board_links WHERE key_hash LIKE ${`%${key}%`} OR mask_value = ${key}`, [], 'it is stored as a hash')

  const [another] = [await api.inNewProject()]
  t.equal((await another.call('POST', `~/boards/${id}/links`)).status, 404)
  t.equal((await another.call('DELETE', `~/boards/${id}/links/${link}`)).status, 404)
  t.same((await another.call('GET', `~/boards/${id}/links`)).body.results, [])
  t.match((await api.call('GET', `~/boards/${id}/links`)).body.results, [{ id: link, mask_value: `phl_...${key.slice(-4)}`, expires_at: null }])
  t.equal((await api.call('DELETE', `~/boards/${id}/links/${link}`)).status, 204)
  t.equal((await byLink(key)).status, 401)
})

t.test('a link ends with its time and with its board', async (t) => {
  const { id } = await createBoard()
  const past = await api.call('POST', `~/boards/${id}/links`, { expires_at: '2020-01-01T00:00:00Z' })
  t.match(past, { status: 400, body: { attr: 'expires_at', detail: 'It must be in the future.' } })
  const { body: { value: later } } = await api.call('POST', `~/boards/${id}/links`, { expires_at: '2100-01-01T00:00:00Z' })
  t.equal((await byLink(later)).status, 200)
  await api.sql`UPDATE board_links SET expires_at = now() WHERE board_id = ${id}`
  t.equal((await byLink(later)).status, 401)
  const { body: { value: key } } = await api.call('POST', `~/boards/${id}/links`)
  await api.call('DELETE', `~/boards/${id}`)
  t.equal((await byLink(key)).status, 401)
})

t.test('nobody shows SQL by a link that their own key may not run', async (t) => {
  const { id, query } = await createBoard()
  const limited = await keyFor([api.projectId])
  const { body: { value: ofLimited } } = await byLink(limited, `/boards/${id}/links`, 'POST', `/api/projects/${api.projectId}`)
  t.match((await byLink(ofLimited)).body.tiles, [{ kind: 'question' }])
  t.equal((await byLink(ofLimited)).body.tiles.length, 1)
  t.equal((await byLink(limited, `/boards/${id}/answers/saved_query/${query}`, 'GET', `/api/projects/${api.projectId}`)).status, 403)

  const { body: { value: key } } = await api.call('POST', `~/boards/${id}/links`)
  t.equal((await byLink(key)).body.tiles.length, 2)
  const { body: { id: added } } = await api.call('POST', '~/saved_queries', { name: 'added', query: 'SELECT 1' })
  const { body: { tiles } } = await api.call('GET', `~/boards/${id}`)
  await api.call('PATCH', `~/boards/${id}`, { tiles: [...tiles, { kind: 'saved_query', id: added }] })
  t.equal((await byLink(key)).body.tiles.length, 2, 'tiles added later are not shown')
  await api.call('PATCH', `~/saved_queries/${query}`, { query: 'SELECT * FROM events' })
  t.equal((await byLink(key)).body.tiles.length, 1, 'what was changed is not shown')
  t.equal((await byLink(key, `/answers/saved_query/${query}`)).status, 404)
})

t.test('a saved query that is changed between the look at the link and its answer is not shown', async (t) => {
  const { query } = await createBoard()
  const answer = createTileAnswers({
    sql: api.sql, clickhouse: client, analystUrl, now: () => clock,
    queries: { begin: () => { throw new Error('it was run') } } as unknown as Parameters<typeof createTileAnswers>[0]['queries']
  })
  const asked = { projectId: api.projectId, tile: { kind: 'saved_query', id: query }, logComment: '' } as const

  const before = new Date(Date.now() - 60_000)
  t.match(await answer({ ...asked, unchangedSince: before }).catch((error: unknown) => error), { status: 404 })
  await t.rejects(answer({ ...asked, unchangedSince: new Date(Date.now() + 60_000) }), /it was run/)
})
