import t from 'tap'
import { createTestApi, type TestAnswer, type TestApi } from '../testing/create-test-api.ts'

const SCHEMA = { type: 'object', required: ['plan'], properties: { plan: { type: 'string', enum: ['free', 'pro'] } } }

const shared = await createTestApi(t)

async function create (api: TestApi, body: object): Promise<TestAnswer> {
  return await api.call('POST', '~/event_schemas/', body)
}

t.test('creates, retrieves, changes by versions, and deletes', async (t) => {
  const api = await shared.inNewProject()

  const { status, body: created } = await create(api, { event: 'order paid', schema: SCHEMA, owner: 'shop', description: 'An order.' })
  t.equal(status, 201)
  t.match(created, {
    id: Number, team_id: api.projectId, event: 'order paid', description: 'An order.', owner: 'shop', mode: 'observe', schema: SCHEMA,
    version: 1, active_version: null, created_by: { id: api.user.id }, created_at: /^\d{4}-\d\d-\d\dT/
  })
  const path = `~/event_schemas/${created.id}`
  t.same((await api.call('GET', path)).body, created)

  t.match(await api.call('PATCH', path, { active_version: 1, mode: 'quarantine' }), { status: 200, body: { active_version: 1, mode: 'quarantine', version: 1 } })
  t.match(await api.call('PATCH', path, { schema: SCHEMA }), { status: 200, body: { version: 1 } }, 'the same schema is no version')
  const stricter = { ...SCHEMA, required: ['plan', 'seats'] }
  const { body: changed } = await api.call('PATCH', path, { schema: stricter })
  t.match(changed, { version: 2, active_version: 1, schema: stricter }, 'a new version is not active by itself')
  t.match(await api.call('PATCH', path, changed), { status: 200, body: { version: 2, active_version: 1 } }, 'what was answered may be sent back')
  t.match(await api.call('GET', `${path}/versions/`), { status: 200, body: { count: 2, results: [{ version: 2, schema: stricter }, { version: 1, schema: SCHEMA }] } })
  t.match(await api.call('GET', `${path}/versions/?limit=1`), { body: { results: [{ version: 2 }], next: /offset=1/ } })
  t.match(await api.call('PATCH', path, { active_version: null }), { status: 200, body: { active_version: null } })

  t.match(await api.call('DELETE', path), { status: 204, body: undefined })
  t.match(await api.call('GET', path), { status: 404 })
  t.match(await api.call('PATCH', path, { mode: 'reject' }), { status: 404 })
  t.match(await create(api, { event: 'order paid', schema: SCHEMA, active_version: 3 }), {
    status: 201, body: { id: created.id, version: 3, active_version: 3, description: '', mode: 'observe' }
  }, 'a number of a version is never used twice')
})

t.test('lists by event, and by whether they are active', async (t) => {
  const api = await shared.inNewProject()
  for (const event of ['b', 'a', 'c']) await create(api, { event, schema: {}, ...event === 'b' && { active_version: 1 } })
  const names = async (query: string): Promise<unknown> =>
    (await api.call('GET', `~/event_schemas/${query}`)).body.results.map(({ event }: { event: string }) => event)

  t.same(await names(''), ['a', 'b', 'c'])
  t.same(await names('?active=true'), ['b'])
  t.same(await names('?active=false'), ['a', 'c'])
  t.same(await names('?search=c'), ['c'])
  t.same(await names('?limit=1&offset=1'), ['b'])
  t.same((await (await shared.inNewProject()).call('GET', '~/event_schemas/')).body.results, [], 'other projects see nothing')
})

t.test('names the field that is wrong', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await create(api, { event: 'known', schema: {} })
  const cases: [body: object, attr: string, code?: string][] = [
    [{ schema: {} }, 'event'],
    [{ event: 'e' }, 'schema'],
    [{ event: '', schema: {} }, 'event'],
    [{ event: ' ', schema: {} }, 'event', 'blank'],
    [{ event: 'known', schema: {} }, 'event', 'unique'],
    [{ event: 'e', schema: [] }, 'schema'],
    [{ event: 'e', schema: {}, mode: 'warn' }, 'mode'],
    [{ event: 'e', schema: {}, active_version: 2 }, 'active_version'],
    [{ event: 'e', schema: {}, unknown: 1 }, 'unknown'],
    [{ event: 'e', schema: { properties: { plan: { pattern: '(?=a)' } } } }, 'schema__properties__plan__pattern', 'invalid_schema'],
    [{ event: 'e', schema: { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } } }, 'schema__$defs__a__$ref', 'invalid_schema'],
    [{ event: 'e', schema: { required: ['__proto__'] } }, 'schema__required__0', 'invalid_schema'],
    [{ event: 'e', schema: { unevaluatedItems: false } }, 'schema__unevaluatedItems', 'invalid_schema']
  ]

  for (const [body, attr, code] of cases) {
    t.match(await create(api, body), { status: 400, body: { type: 'validation_error', attr, ...code && { code } } }, JSON.stringify(body))
  }
  t.match(await api.call('PATCH', `~/event_schemas/${id}`, { schema: { type: 'string' } }), { status: 400, body: { attr: 'schema__type' } })
  t.match(await api.call('GET', '~/event_schemas/999999'), { status: 404 })
  const hostile = '{"event":"e","schema":{"properties":{"__proto__":{"type":"string"}}}}'
  const answer = await shared.app.inject({
    method: 'POST', url: `/api/projects/${api.projectId}/event_schemas/`, payload: hostile,
    headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' }
  })
  t.match(answer, { statusCode: 400 })
  t.match(answer.json(), { type: 'validation_error', attr: 'body' })
})
