import { randomUUID } from 'node:crypto'
import t from 'tap'
import { toWarningRow, type WarningReason, WARNINGS_TABLE } from '../../../schema/wire/ingestion-warnings.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createTestApi, type TestAnswer, type TestApi } from '../../testing/create-test-api.ts'

const SCHEMA = { type: 'object', required: ['plan'], properties: { plan: { type: 'string', enum: ['free', 'pro'] } } }

const now = Date.now()
const clickhouse = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: clickhouse.client, now: () => now })

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
  t.match(await api.call('PATCH', path, { event: 'order sent', owner: 'me' }), { status: 400, body: { type: 'validation_error', code: 'invalid', attr: 'event' } })
  t.match(await api.call('GET', path), { body: { event: 'order paid', owner: 'shop' } }, 'nothing of it is written')
  t.match(await api.call('PATCH', path, { id: 99, created_at: 'x' }), { status: 200, body: { id: created.id } }, 'as with flags')
  t.match(await api.call('PATCH', path, { active_version: null }), { status: 200, body: { active_version: null } })

  t.match(await api.call('DELETE', path), { status: 204, body: undefined })
  t.match(await api.call('GET', path), { status: 404 })
  t.match(await api.call('PATCH', path, { mode: 'reject' }), { status: 404 })
  t.match(await create(api, { event: 'order paid', schema: SCHEMA, active_version: 3 }), {
    status: 201, body: { id: created.id, version: 3, first_version: 3, active_version: 3, description: '', mode: 'observe' }
  }, 'a number of a version is never used twice')
})

t.test('one that is created where one was deleted has a history of its own, and the earlier versions stay', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await create(api, { event: 'paid', schema: SCHEMA })
  const path = `~/event_schemas/${id}`
  await api.call('PATCH', path, { schema: {} })
  const numbers = async (query = ''): Promise<unknown> =>
    (await api.call('GET', `${path}/versions/${query}`)).body.results?.map(({ version }: { version: number }) => version)

  await api.call('DELETE', path)
  t.match(await api.call('GET', `${path}/versions/`), { status: 404 })
  t.same(await numbers('?deleted=true'), [2, 1], 'what events were checked by is still there')

  await create(api, { event: 'paid', schema: { required: ['seats'] } })
  t.same(await numbers(), [3])
  t.same(await numbers('?deleted=true'), [3, 2, 1])
  t.same(await numbers('?deleted=true&limit=1&offset=1'), [2])
  t.match(await api.call('PATCH', path, { active_version: 2 }), { status: 400, body: { attr: 'active_version', detail: /before 3/ } })
  t.match(await api.call('PATCH', path, { active_version: 3 }), { status: 200, body: { first_version: 3, version: 3 } })
  t.match(await api.call('GET', '~/event_schemas/999999/versions/?deleted=true'), { status: 404 })
  t.match(await (await shared.inNewProject()).call('GET', `${path}/versions/?deleted=true`), { status: 404 }, 'other projects see nothing')
})

t.test('a change of an older version is refused, and nothing of it is written', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await create(api, { event: 'paid', schema: SCHEMA })
  const path = `~/event_schemas/${id}`
  t.match(await api.call('PATCH', path, { schema: { required: ['a'] }, version: 1 }), { status: 200, body: { version: 2 } })

  const refused = await api.call('PATCH', path, { schema: { required: ['b'] }, owner: 'me', active_version: 1, version: 1 })
  t.match(refused, { status: 409, body: { type: 'invalid_request', code: 'conflict', attr: 'version' } })
  t.match(refused.body.detail, `has version 2, stored by ${api.user.email}; your change is based on version 1`)
  t.match(await api.call('GET', path), { body: { version: 2, schema: { required: ['a'] }, owner: '', active_version: null } })
  for (const change of [{ owner: 'me' }, { mode: 'reject' }, { active_version: 1 }, { description: 'x' }]) {
    t.match(await api.call('PATCH', path, { ...change, version: 1 }), { status: 409 }, JSON.stringify(change))
  }

  t.match(await api.call('PATCH', path, { schema: { required: ['a'] }, version: 1 }), { status: 200, body: { version: 2 } }, 'sent again after a lost answer')
  t.match(await api.call('PATCH', path, { schema: { required: ['b'] } }), { status: 200, body: { version: 3 } }, 'without a version the last one wins')
  const [one, other] = await Promise.all(['c', 'd'].map(async (name) => await api.call('PATCH', path, { schema: { required: [name] }, version: 3 })))
  t.same([one!.status, other!.status].sort(), [200, 409], 'of two at once one is stored')
  t.match(await api.call('GET', path), { body: { version: 4 } })
})

t.test('counts the events that were checked by each schema, and those that did not meet it', async (t) => {
  const api = await shared.inNewProject()
  const make = async (event: string): Promise<number> =>
    (await create(api, { event, schema: SCHEMA, active_version: 1 })).body.id
  const [paid, seen, quiet] = [await make('paid'), await make('seen'), await make('quiet')]
  const row = (event: string, schemaVersion: number, daysAgo = 0): object => {
    const at = new Date(now - daysAgo * 86_400_000 - 1000).toISOString().slice(0, 23)
    const time = { timestamp: at, received_at: at }
    return { project_id: api.projectId, uuid: randomUUID(), event, distinct_id: 'd', ...time, properties: '{}', schema_version: schemaVersion }
  }
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [row('paid', 1), row('paid', 1, 3), row('paid', 1, 9), row('paid', -1), row('paid', 0), row('seen', 1), row('without', 1)]
  })
  const warned = (
    source: string, schema: number, reason: WarningReason, count: number, minute = now - 60_000
  ): object =>
    toWarningRow(source, { projectId: api.projectId, schema, reason, count, minute, samples: [] })
  await clickhouse.client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [
      warned('one', paid, 'schema_not_met', 1), warned('one', paid, 'schema_quarantined', 3), warned('one', paid, 'schema_quarantined', 5),
      warned('two', paid, 'schema_quarantined', 2), warned('two', seen, 'schema_rejected', 4), warned('two', seen, 'schema_rejected', 100, now - 10 * 86_400_000),
      toWarningRow('one', { projectId: api.projectId, reason: 'schema_not_met', count: 50, minute: now - 60_000, samples: [] })
    ]
  })
  const counts = async (query = ''): Promise<unknown> => (await api.call('GET', `~/event_schemas/counts${query}`)).body.results

  t.same(await counts(), [
    { schema: paid, checked: 10, kept: 1, quarantined: 7, rejected: 0 },
    { schema: seen, checked: 5, kept: 0, quarantined: 0, rejected: 4 }
  ])
  t.match(await counts('?days=30'), [{ checked: 11 }, { checked: 105, rejected: 104 }])
  t.match(await api.call('GET', '~/event_schemas/counts?days=91'), { status: 400, body: { attr: 'days' } })
  t.same((await (await shared.inNewProject()).call('GET', '~/event_schemas/counts')).body.results, [], 'other projects see nothing')

  await api.call('DELETE', `~/event_schemas/${paid}`)
  await create(api, { event: 'paid', schema: SCHEMA })
  await api.sql`UPDATE event_schemas SET created_at = ${new Date(now + 60_000)} WHERE id = ${paid}`
  t.same(await counts(), [{ schema: seen, checked: 5, kept: 0, quarantined: 0, rejected: 4 }], 'a new one begins without the counts of the deleted one')
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values: [row('paid', 2), row('quiet', 0)] })
  await clickhouse.client.insert({ table: WARNINGS_TABLE, format: 'JSONEachRow', values: [warned('one', paid, 'schema_not_met', 1, now + 60_000)] })
  t.match(await counts(), [{ schema: paid, checked: 2, kept: 1 }, { schema: seen }])
  t.ok(quiet > 0)
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

t.test('who follows next gets every schema and every version once, while others come and go', async (t) => {
  const api = await shared.inNewProject()
  const ids = new Map<string, number>()
  for (const event of ['B', 'a', 'b', 'c', 'd']) ids.set(event, (await create(api, { event, schema: {} })).body.id)
  const follow = async (next: string): Promise<any> => (await api.call('GET', next.replace(/^https?:\/\/[^/]+/, ''))).body

  const { body: first } = await api.call('GET', '~/event_schemas/?limit=2&search=')
  t.match(first, { count: 5, results: [{ event: 'B' }, { event: 'a' }], next: /offset=2.*after=/ }, 'by bytes')
  await api.call('DELETE', `~/event_schemas/${ids.get('a')}`)
  await create(api, { event: 'A', schema: {} })
  const second = await follow(first.next)
  t.match(second, { count: 5, results: [{ event: 'b' }, { event: 'c' }] })
  await api.call('DELETE', `~/event_schemas/${ids.get('c')}`)
  t.match(await follow(second.next), { results: [{ event: 'd' }], next: null })

  const path = `~/event_schemas/${ids.get('d')}`
  for (const name of ['1', '2', '3']) await api.call('PATCH', path, { schema: { required: [name] } })
  const { body: newest } = await api.call('GET', `${path}/versions/?limit=2`)
  t.match(newest, { count: 4, results: [{ version: 4 }, { version: 3 }] })
  await api.call('PATCH', path, { schema: { required: ['4'] } })
  t.match(await follow(newest.next), { count: 5, results: [{ version: 2 }, { version: 1 }], next: null })

  for (const list of ['~/event_schemas/', `${path}/versions/`, '~/rules/']) {
    t.match(await api.call('GET', `${list}?after=W10`), { status: 400, body: { attr: 'after' } }, list)
  }
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
  for (const keyword of ['"const":1e400', '"enum":[1,-1e400]', '"minimum":1e400', '"examples":[1e400]']) {
    const schema = `{"properties":{"seats":{${keyword}}}}`
    const refused = { status: 400, body: { code: 'invalid_input', attr: /^schema__properties__seats__(const|enum__1|minimum|examples__0)$/ } }
    t.match(await api.call('POST', '~/event_schemas/', `{"event":"e","schema":${schema},"active_version":1}` as never), refused, keyword)
    t.match(await api.call('PATCH', `~/event_schemas/${id}`, `{"schema":${schema}}` as never), refused, keyword)
  }
  t.match(await api.call('GET', '~/event_schemas/999999'), { status: 404 })
  const hostile = '{"event":"e","schema":{"properties":{"__proto__":{"type":"string"}}}}'
  const answer = await shared.app.inject({
    method: 'POST', url: `/api/projects/${api.projectId}/event_schemas/`, payload: hostile,
    headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' }
  })
  t.match(answer, { statusCode: 400 })
  t.match(answer.json(), { type: 'validation_error', attr: 'schema__properties____proto__' })
})
