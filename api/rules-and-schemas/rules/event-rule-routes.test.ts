import { randomUUID } from 'node:crypto'
import t from 'tap'
import { toWarningRow, WARNINGS_TABLE } from '../../../schema/wire/ingestion-warnings.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createTestApi, type TestAnswer, type TestApi } from '../../testing/create-test-api.ts'

const now = Date.UTC(2026, 10, 21, 12)
const clickhouse = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: clickhouse.client, now: () => now })

const CONDITION = { type: 'event', value: 'visit' }
const DROP = [{ type: 'drop' }]

async function create (api: TestApi, body: object): Promise<TestAnswer> {
  return await api.call('POST', '~/rules/', body)
}

t.test('creates, retrieves, changes by versions, and deletes', async (t) => {
  const api = await shared.inNewProject()
  const { status, body: created } = await create(api, { name: 'no visits', condition: CONDITION, actions: DROP, description: 'Too many.' })
  t.equal(status, 201)
  t.match(created, {
    id: Number, team_id: api.projectId, name: 'no visits', description: 'Too many.', position: 10, condition: CONDITION, actions: DROP,
    version: 1, active_version: null, created_by: { id: api.user.id }, created_at: /^\d{4}-\d\d-\d\dT/
  })
  const path = `~/rules/${created.id}`
  t.same((await api.call('GET', path)).body, created)

  t.match(await api.call('PATCH', path, { active_version: 1, position: 7 }), { status: 200, body: { active_version: 1, position: 7, version: 1 } })
  t.match(await api.call('PATCH', path, { actions: DROP }), { body: { version: 1 } }, 'the same rule is no version')
  const { body: changed } = await api.call('PATCH', path, { actions: [{ type: 'truncate_ip' }] })
  t.match(changed, { version: 2, active_version: 1, condition: CONDITION, actions: [{ type: 'truncate_ip' }] })
  t.match(await api.call('PATCH', path, changed), { status: 200, body: { version: 2 } }, 'what was answered may be sent back')
  t.match(await api.call('GET', `${path}/versions/`), { body: { count: 2, results: [{ version: 2, actions: [{ type: 'truncate_ip' }] }, { version: 1, actions: DROP }] } })
  t.match(await api.call('PATCH', path, { name: 'renamed', position: 3 }), { status: 400, body: { type: 'validation_error', code: 'invalid', attr: 'name' } })
  t.match(await api.call('GET', path), { body: { name: 'no visits', position: 7 } }, 'nothing of it is written')
  t.match(await api.call('PATCH', path, { active_version: null }), { body: { active_version: null } })
  t.match(await api.call('PATCH', path, { condition: null }), { status: 200, body: { condition: null, version: 3 } })

  t.match(await api.call('DELETE', path), { status: 204 })
  t.match(await api.call('GET', path), { status: 404 })
  t.match(await api.call('PATCH', path, { position: 1 }), { status: 404 })
  t.match(await create(api, { name: 'no visits', actions: DROP, active_version: 4 }), { status: 201, body: { id: created.id, version: 4, first_version: 4, active_version: 4 } })
  t.match(await api.call('GET', `${path}/versions/`), { body: { count: 1, results: [{ version: 4 }] } }, 'its history is its own')
  t.match(await api.call('GET', `${path}/versions/?deleted=true`), { body: { count: 4, results: [{ version: 4 }, { version: 3 }, { version: 2 }, { version: 1 }] } })
  t.match(await api.call('PATCH', path, { active_version: 3 }), { status: 400, body: { attr: 'active_version' } })
})

t.test('a change of an older version is refused, and nothing of it is written', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await create(api, { name: 'no visits', condition: CONDITION, actions: DROP })
  const path = `~/rules/${id}`
  t.match(await api.call('PATCH', path, { actions: [{ type: 'truncate_ip' }], version: 1 }), { status: 200, body: { version: 2 } })

  const refused = await api.call('PATCH', path, { condition: null, position: 3, version: 1 })
  t.match(refused, { status: 409, body: { type: 'invalid_request', code: 'conflict', attr: 'version' } })
  t.match(refused.body.detail, `The rule has version 2, stored by ${api.user.email}; your change is based on version 1`)
  t.match(await api.call('GET', path), { body: { version: 2, condition: CONDITION, position: 10 } })

  const same = { condition: CONDITION, actions: [{ type: 'truncate_ip' }], position: 10, version: 1 }
  t.match(await api.call('PATCH', path, same), { status: 200, body: { version: 2 } }, 'sent again after a lost answer')
  t.match(await api.call('PATCH', path, { condition: null }), { status: 200, body: { version: 3 } }, 'without a version the last one wins')
})

t.test('lists in the order in which they run', async (t) => {
  const api = await shared.inNewProject()
  for (const [name, position] of [['b', 30], ['a', 10], ['c', 20]] as const) {
    await create(api, { name, position, actions: DROP, ...name === 'b' && { active_version: 1 } })
  }
  await create(api, { name: 'last', actions: DROP })
  const names = async (query: string): Promise<unknown> =>
    (await api.call('GET', `~/rules/${query}`)).body.results.map(({ name }: { name: string }) => name)

  t.same(await names(''), ['a', 'c', 'b', 'last'])
  t.same(await names('?active=true'), ['b'])
  t.same(await names('?search=c'), ['c'])
  t.same(await names('?limit=1&offset=1'), ['c'])
  t.same((await (await shared.inNewProject()).call('GET', '~/rules/')).body.results, [], 'other projects see nothing')
})

t.test('who follows next gets every rule and every version once, while others come and go', async (t) => {
  const api = await shared.inNewProject()
  const ids: number[] = []
  for (const name of ['a', 'b', 'c', 'd', 'e']) ids.push((await create(api, { name, position: 5, actions: DROP })).body.id)
  const follow = async (next: string): Promise<any> => (await api.call('GET', next.replace(/^https?:\/\/[^/]+/, ''))).body

  const { body: first } = await api.call('GET', '~/rules/?limit=2')
  t.match(first, { results: [{ name: 'a' }, { name: 'b' }] })
  await api.call('DELETE', `~/rules/${ids[0]}`)
  await create(api, { name: 'earlier', position: 1, actions: DROP })
  await create(api, { name: 'later', position: 6, actions: DROP })
  const second = await follow(first.next)
  t.match(second, { results: [{ name: 'c' }, { name: 'd' }] }, 'of one position by id')
  await api.call('DELETE', `~/rules/${ids[3]}`)
  t.match(await follow(second.next), { results: [{ name: 'e' }, { name: 'later' }], next: null })

  const path = `~/rules/${ids[4]}`
  await api.call('PATCH', path, { condition: CONDITION })
  const { body: newest } = await api.call('GET', `${path}/versions/?limit=1`)
  await api.call('PATCH', path, { condition: null })
  t.match(await follow(newest.next), { results: [{ version: 1 }], next: null })
})

t.test('names the field that is wrong', async (t) => {
  const api = await shared.inNewProject()
  await create(api, { name: 'known', actions: DROP })
  const cases: [body: object, attr: string, code?: string][] = [
    [{ actions: DROP }, 'name'],
    [{ name: 'n' }, 'actions'],
    [{ name: ' ', actions: DROP }, 'name', 'blank'],
    [{ name: 'known', actions: DROP }, 'name', 'unique'],
    [{ name: 'n', actions: [] }, 'actions', 'invalid_rule'],
    [{ name: 'n', actions: [1] }, 'actions__0'],
    [{ name: 'n', actions: DROP, position: -1 }, 'position'],
    [{ name: 'n', actions: DROP, active_version: 2 }, 'active_version'],
    [{ name: 'n', actions: DROP, condition: { type: 'event', operator: 'regex', value: '(?=a)' } }, 'condition__value', 'invalid_rule'],
    [{ name: 'n', actions: [{ type: 'sample', rate: 2 }] }, 'actions__0__rate', 'invalid_rule'],
    [{ name: 'n', actions: [{ type: 'remove_property', property: '$anon_distinct_id' }] }, 'actions__0__property', 'invalid_rule']
  ]

  for (const [body, attr, code] of cases) {
    t.match(await create(api, body), { status: 400, body: { type: 'validation_error', attr, ...code && { code } } }, JSON.stringify(body))
  }
  for (const [rule, attr] of [
    ['"actions":[{"type":"set_property","property":"seats","value":1e400}]', 'actions__0__value'],
    ['"actions":[{"type":"set_property","property":"seats","value":{"all":[1e400]}}]', 'actions__0__value__all__0'],
    ['"actions":[{"type":"drop"}],"condition":{"type":"property","key":"seats","value":[1,1e400]}', 'condition__value__1']
  ] as const) {
    t.match(await api.call('POST', '~/rules/', `{"name":"n",${rule}}` as never), { status: 400, body: { code: 'invalid_input', attr } }, rule)
  }
  t.match(await api.call('GET', '~/rules/999999'), { status: 404 })
})

function rowOf (
  { projectId }: TestApi, event: string, properties: object, { ip = '10.1.2.3', daysAgo = 0, id = 'd' } = {}
): object {
  const timestamp = new Date(now - daysAgo * 86_400_000 - 1000).toISOString().slice(0, 23)
  return {
    project_id: projectId, uuid: randomUUID(), event, distinct_id: id, timestamp, received_at: timestamp, lib: 'web', lib_version: '1', ip,
    properties: JSON.stringify(properties)
  }
}

t.test('says what a rule would have done with stored events, and what rules did', async (t) => {
  const api = await shared.inNewProject()
  const row = (event: string, properties: object, options?: { ip?: string, daysAgo?: number }): object =>
    rowOf(api, event, properties, options)
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [
      row('visit', { host: 'shop' }), row('visit', { host: 'localhost' }), row('visit', { host: 'localhost' }, { daysAgo: 3, ip: '' }),
      row('visit', { host: 'localhost' }, { daysAgo: 9 }), row('paid', { host: 'localhost' }), row('$identify', { host: 'localhost' })
    ]
  })
  const localhost = { type: 'property', key: 'host', value: 'localhost' }
  const { body: { id } } = await create(api, { name: 'internal', condition: { type: 'AND', values: [CONDITION, localhost] }, actions: DROP })
  const check = async (body?: object): Promise<any> => (await api.call('POST', `~/rules/${id}/check`, body)).body

  t.match(await check(), {
    events: 3, matched: 2, dropped: 2, sampled: 0, changed: 0, without_address: 0, complete: true, names: [{ event: 'visit', events: 3, matched: 2 }],
    libs: [{ lib: 'web', lib_version: '1', events: 3, matched: 2 }], samples: [{ event: 'visit', uuid: String }, { event: 'visit' }]
  })
  t.match(await check({ days: 10 }), { events: 4, matched: 3 })
  t.match(await check({ days: 10, limit: 1 }), { events: 1, complete: false })
  t.match(await check({ condition: localhost, actions: DROP }), { events: 4, dropped: 3 }, 'a draft; who is who is not dropped')
  t.match(await check({ actions: [{ type: 'remove_property', property: 'host' }] }), { matched: 5, dropped: 0, changed: 5 })
  t.match(await check({ condition: { type: 'ip', value: '10.0.0.0/8' }, actions: DROP }), { matched: 3, without_address: 1 })
  t.match(await check({ actions: [{ type: 'sample', rate: 0.0001 }] }), { matched: 4, sampled: 4 })
  t.match(await check({ condition: { type: 'event', value: 'none' }, actions: DROP }), { events: 0, matched: 0, names: [] })
  t.match(await check({ actions: [{ type: 'drop', rate: 1 }] }), { attr: 'actions__0__rate' })
  t.match(await api.call('POST', '~/rules/999999/check'), { status: 404 })

  const total = { projectId: api.projectId, rule: id, minute: now - 60_000, samples: [] }
  await clickhouse.client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [
      toWarningRow('one', { ...total, reason: 'rule_dropped', count: 3 }), toWarningRow('one', { ...total, reason: 'rule_dropped', count: 5 }),
      toWarningRow('two', { ...total, reason: 'rule_dropped', count: 2 }), toWarningRow('one', { ...total, reason: 'rule_changed', count: 1 }),
      toWarningRow('one', { ...total, reason: 'rule_sampled', count: 4, minute: now - 10 * 86_400_000 })
    ]
  })
  t.same((await api.call('GET', '~/rules/counts')).body, { results: [{ rule: id, dropped: 7, sampled: 0, changed: 1 }] })
  t.match((await api.call('GET', '~/rules/counts?days=30')).body, { results: [{ sampled: 4 }] })
  t.match(await api.call('GET', '~/rules/counts?days=0'), { status: 400, body: { attr: 'days' } })
  await api.call('DELETE', `~/rules/${id}`)
  await create(api, { name: 'internal', actions: DROP })
  await api.sql`UPDATE event_rules SET created_at = ${new Date(now + 60_000)} WHERE id = ${id}`
  t.same((await api.call('GET', '~/rules/counts?days=30')).body, { results: [] }, 'a new one begins without the counts of the deleted one')
})

t.test('looks into as many events as the limit says, newest day first, and says whether there are more', async (t) => {
  const api = await shared.inNewProject()
  const values = [0, 0, 1, 1, 1, 5].map((daysAgo) => rowOf(api, 'visit', { day: daysAgo }, { daysAgo }))
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values: [...values, rowOf(api, 'other', {})] })
  const { body: { id } } = await create(api, { name: 'no visits', condition: CONDITION, actions: DROP })
  const old = { type: 'AND', values: [CONDITION, { type: 'property', key: 'day', operator: 'gt', value: 0 }] }
  const check = async (limit: number): Promise<any> =>
    (await api.call('POST', `~/rules/${id}/check`, { limit, condition: old, actions: DROP })).body

  t.match(await check(1), { events: 1, matched: 0, complete: false })
  t.match(await check(2), { events: 2, matched: 0, complete: false }, 'the next day is not looked into')
  t.match(await check(4), { events: 4, matched: 2, complete: false }, 'it ends within a day')
  t.match(await check(5), { events: 5, matched: 3, complete: false })
  t.match(await check(6), { events: 6, matched: 4, complete: true }, 'as many as there are')
  t.match(await check(100_000_000), { events: 6, complete: true })
  t.match(await check(0), { attr: 'limit' })
  t.match(await check(100_000_001), { attr: 'limit' })
})

t.test('shows how far a check is, line by line, when the client asks for lines', async (t) => {
  const api = await shared.inNewProject()
  const values = [...[0, 0, 3].map((daysAgo) => rowOf(api, 'visit', {}, { daysAgo })), rowOf(api, 'other', {})]
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values })
  const { body: { id } } = await create(api, { name: 'no visits', condition: CONDITION, actions: DROP })
  const check = async (body: object): Promise<{ status: number, lines: any[] }> => {
    const { statusCode: status, body: text } = await api.app.inject({
      method: 'POST', url: `/api/projects/${api.projectId}/rules/${id}/check`, payload: body,
      headers: { authorization: `Bearer ${api.key}`, accept: 'application/x-ndjson' }
    })
    return { status, lines: text.trim().split('\n').map((line) => JSON.parse(line)) }
  }

  /** The first and the last line before the answer are certain; more come in between when reading takes long. */
  const shows = (lines: any[], total: number, about: string): void => {
    const progress = lines.slice(0, -1)
    t.same([progress[0], progress.at(-1)], [{ checked: 0, total }, { checked: total, total }], about)
    const goesOn = (line: any, index: number): boolean =>
      line.total === total && (index === 0 || line.checked >= progress[index - 1].checked)
    t.ok(progress.every(goesOn), JSON.stringify(progress))
  }

  const { status, lines } = await check({})
  t.equal(status, 200)
  shows(lines, 3, 'of names that the rule is about')
  t.same(lines.at(-1), (await api.call('POST', `~/rules/${id}/check`, {})).body, 'the last line is the answer of a request without lines')
  const { lines: some } = await check({ limit: 2 })
  shows(some, 2, 'no more than are looked into')
  t.match(some.at(-1), { events: 2, complete: false })
  t.match(await check({ days: 0 }), { status: 400, lines: [{ attr: 'days' }] })
  t.match(await check({ actions: [{ type: 'nothing' }] }), { status: 400, lines: [{ attr: 'actions__0__type' }] })
})

t.test('finds the events that a rule is about among very many names', async (t) => {
  const api = await shared.inNewProject()
  const values = Array.from({ length: 3000 }, (_, index) => rowOf(api, `it's named ${index} ${'x'.repeat(50)}`, {}))
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values })
  const { body: { id } } = await create(api, { name: 'even ones', actions: DROP })
  const check = async (operator: string, value: string): Promise<any> =>
    (await api.call('POST', `~/rules/${id}/check`, { condition: { type: 'event', operator, value }, actions: DROP })).body

  t.match(await check('regex', '[02468] x'), { events: 1500, matched: 1500 })
  t.match(await check('exact', `it's named 7 ${'x'.repeat(50)}`), { events: 1, matched: 1 })
  t.match(await check('is_not', 'nothing'), { events: 3000, matched: 3000 })
})
