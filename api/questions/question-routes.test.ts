import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send, type TestAnswer } from '../testing/create-test-api.ts'

const { url, client } = await createTestClickHouse(t)
const analystUrl = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href
let clock = Date.parse('2026-03-05T12:00:00Z')
const now = (): number => clock
const api = await createTestApi(t, { clickhouse: client, analystUrl, now })

const PAID = { kind: 'trend', version: 1, range: { last: 3, unit: 'day' }, series: [{ event: 'paid', measure: 'people' }] }
const FUNNEL = { kind: 'funnel', version: 1, range: { last: 3, unit: 'day' }, steps: [{ event: 'seen' }, { event: 'paid' }] }

await client.insert({
  table: 'events', format: 'JSONEachRow',
  values: [['ann', 'seen', '04 10:00:00'], ['ann', 'paid', '04 11:00:00'], ['ann', 'cancel', '04 12:00:00'], ['bob', 'seen', '05 09:00:00'], ['ann', 'paid', '05 10:00:00']]
    .map(([distinctId, event, time]) => ({
      project_id: api.projectId, uuid: crypto.randomUUID(), event, distinct_id: distinctId, timestamp: `2026-03-${time}`,
      received_at: `2026-03-${time}`, properties: '{"plan":"pro"}'
    }))
})
await client.insert({
  table: 'watermark_reached', format: 'JSONEachRow',
  values: [{ id: 0, complete_through: '2026-03-05 11:59:59', state: { updated_at: '2100-01-01', held_by: 'ingest' } }]
})

async function callAs (scopes: string[], projectIds: number[] | null, path: string, body: object): Promise<TestAnswer> {
  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes, projectIds, expiresAt: null })
  await api.keys.refresh()
  return await send(api.app, { method: 'POST', url: `/api/projects/${api.projectId}/questions${path}`, headers: { authorization: `Bearer ${key}` }, payload: body })
}

t.test('a question is stored, found, changed, searched and deleted', async (t) => {
  const { call } = await api.inNewProject()
  const { status, body: created } = await call('POST', '~/questions', { name: 'Buyers', definition: PAID })

  t.equal(status, 201)
  t.match(created, { name: 'Buyers', description: '', definition: PAID, created_by: { email: 'ann@example.com' } })
  t.same((await call('GET', `~/questions/${created.id}`)).body, created)
  t.match(await call('PATCH', `~/questions/${created.id}`, { ...created, definition: FUNNEL }), { status: 200, body: { name: 'Buyers', definition: FUNNEL } })
  t.match((await call('GET', '~/questions?search=buy')).body, { count: 1, results: [{ id: created.id }] })
  t.match(await call('POST', '~/questions', { name: 'Buyers', definition: PAID }), { status: 400, body: { code: 'unique', attr: 'name' } })
  t.equal((await call('DELETE', `~/questions/${created.id}`)).status, 204)
  t.equal((await call('GET', `~/questions/${created.id}/answer`)).status, 404)
})

t.test('a definition that cannot be answered is not stored, and the field is named', async (t) => {
  const wrong = { ...PAID, series: [{ event: 'paid', measure: 'mean' }] }
  for (const [method, path, body] of [['POST', '', { name: 'n', definition: wrong }], ['POST', '/answer', { definition: wrong }]] as const) {
    t.match(await api.call(method, `~/questions${path}`, body), { status: 400, body: { type: 'validation_error', attr: 'definition__series__0__measure' } })
  }
  const long = { ...PAID, interval: 'hour', range: { last: 12, unit: 'month' } }
  t.match(await api.call('POST', '~/questions/answer', { definition: long }), { status: 400, body: { attr: 'definition__interval' } })
})

t.test('an answer says what it was computed from', async (t) => {
  const { status, body } = await api.call('POST', '~/questions/answer', { definition: PAID })

  t.equal(status, 200)
  t.match(body, {
    from: '2026-03-03', to: '2026-03-05', timezone: 'UTC', complete_through: '2026-03-05T11:59:59.000Z', includes_bots: false, samples: 'as_stored',
    read_rows: Number, ms: Number, sql: /^-- trend: 2026-03-03 to 2026-03-05, days of UTC, without bots\nSELECT /,
    answer: {
      kind: 'trend', previous: null,
      points: [{ start: '2026-03-03', is_partial: false }, { start: '2026-03-04', is_partial: false }, { start: '2026-03-05', is_partial: true }],
      lines: [{ series: 0, name: 'people of paid', part: 'all', value: null, values: [0, 1, 1], total: 1 }]
    }
  })
  t.ok(body.read_rows > 0)
  const { body: stored } = await api.call('POST', '~/questions', { name: 'Buyers', definition: PAID })
  const { body: again } = await api.call('GET', `~/questions/${stored.id}/answer`)
  t.same(again.answer, body.answer)
  t.equal(again.sql, body.sql)
})

t.test('a sum says how many events have no number and are left out', async (t) => {
  const series = ['events', 'sum', 'average'].map((measure) => ({ event: 'paid', measure, property: measure === 'events' ? undefined : 'plan' }))
  const { body } = await api.call('POST', '~/questions/answer', { definition: { ...PAID, series } })
  t.match(body.answer.lines, [{ total: 2, left_out: 0 }, { total: 0, left_out: 2 }, { total: null, left_out: 2 }])
})

t.test('the persons behind a number are listed for keys that may see persons', async (t) => {
  const behind = async (definition: object, cell: object, limit?: number) => await api.call('POST', '~/questions/persons', { definition, cell, limit })
  const lost = { step: 2, outcome: 'lost' }
  const { body: funnel } = await api.call('POST', '~/questions/answer', { definition: FUNNEL })
  t.match(funnel.answer.parts, [{ part: 'all', steps: [{ people: 2, conversion: 1 }, { people: 1, conversion: 0.5, median_ms: 3_600_000 }] }])
  t.match((await behind(FUNNEL, lost)).body, {
    people: 1, sql: /^-- persons of a funnel: /, results: [{ person_id: /^[0-9a-f-]{36}$/, at: '2026-03-05T09:00:00.000Z', value: null, name: '', is_known: false }]
  }, 'only events of bob are stored')
  t.match((await behind(FUNNEL, { step: 1 }, 1)).body, { people: 2, results: { length: 1 } })
  const events = { ...PAID, series: [{ event: 'paid' }] }
  t.match((await behind(events, {})).body, { people: 1, results: [{ value: 2, at: '2026-03-05T10:00:00.000Z' }] })
  t.match((await behind(PAID, { start: '2026-03-03' })).body, { people: 0, results: [] })
  const retention = { kind: 'retention', version: 1, range: { last: 3, unit: 'day' }, interval: 'day', start: { event: 'seen' } }
  t.match((await behind(retention, { start: '2026-03-04', returned: 1 })).body, { people: 1, results: [{ at: null }] })

  const active = { version: 1, range: { last: 3, unit: 'day' }, interval: 'day', activity: { event: null } }
  const [lifecycle, stickiness] = [{ ...active, kind: 'lifecycle' }, { ...active, kind: 'stickiness' }]
  t.match((await api.call('POST', '~/questions/answer', { definition: lifecycle })).body.answer.states, [
    { state: 'new', values: [0, 1, 1] }, { state: 'returning', values: [0, 0, 1] }, { state: 'resurrecting', values: [0, 0, 0] }, { state: 'dormant', values: [0, 0, 0] }
  ])
  t.match((await behind(lifecycle, { start: '2026-03-05', state: 'returning' })).body, { people: 1 })
  t.match((await api.call('POST', '~/questions/answer', { definition: stickiness })).body.answer.counts, [{ periods: 1, people: 1 }, { periods: 2, people: 1 }, { periods: 3, people: 0 }])
  t.match((await behind(stickiness, { periods: 2 })).body, { people: 1 })

  const late = { ...FUNNEL, exclude: [{ event: 'paid' }] }
  t.match((await api.call('POST', '~/questions/answer', { definition: late })).body.answer.parts[0].steps[1], { people: 1 }, 'it is the step itself')
  const excluded = { ...FUNNEL, steps: [{ event: 'seen' }, { event: 'paid' }, { event: 'paid' }], exclude: [{ event: 'cancel', from: 2 }] }
  const { body: timed } = await api.call('POST', '~/questions/answer', { definition: excluded })
  const [, second] = timed.answer.parts[0].steps
  t.match(timed.answer.parts[0].steps, [{ people: 2, times: [] }, { people: 1 }, { people: 0, p90_ms: null }])
  t.equal(second.p90_ms, 3_600_000)
  const took = second.times.filter(({ people }: { people: number }) => people > 0)
  t.same(took, [{ from_ms: 3_600_000, to_ms: 14_400_000, people: 1 }])
  t.match((await behind(excluded, { step: 2, from_ms: 3_600_000 })).body, { people: 1 })
  t.match((await behind(excluded, { step: 2, from_ms: 0 })).body, { people: 0 })
  t.match((await behind(excluded, { step: 3, outcome: 'lost' })).body, { people: 1 })

  const paths = { kind: 'paths', version: 1, range: { last: 3, unit: 'day' }, from: { event: 'seen' }, gap: { value: 1, unit: 'hour' } }
  t.match((await api.call('POST', '~/questions/answer', { definition: paths })).body, { unknown_events: { length: 0 }, answer: { people: 2, paths: 2, edges: [{ step: 1, from: 'seen', to: 'paid', people: 1, paths: 1 }, { step: 2, from: 'paid', to: 'cancel' }] } })
  t.match((await api.call('POST', '~/questions/answer', { definition: { ...paths, events: ['cancel'] } })).body.answer, { people: 2, edges: [] }, 'two hours later')
  t.match((await api.call('POST', '~/questions/answer', { definition: { ...paths, nodes: 1 } })).body.answer.edges, [{ from: 'seen', to: null }])
  t.match((await behind(paths, { step: 1, from: 'seen', to: 'paid' })).body, { people: 1, results: [{ at: '2026-03-04T10:00:00.000Z' }] })
  t.match((await behind(paths, {})).body, { people: 2 })
  t.match((await behind(paths, { step: 1 })).body, { people: 0 }, 'between others')

  const ofPlan = { ...FUNNEL, breakdown: { property: 'plan' } }
  const listed = await Promise.all(['pro', 'free'].map(async (value) => (await behind(ofPlan, { ...lost, part: 'value', value })).body.people))
  t.same(listed, [1, 0])
  for (const [definition, cell, attr] of [
    [FUNNEL, { ...lost, part: 'rest' }, 'cell__part'], [ofPlan, { ...lost, part: 'value' }, 'cell__value'], [ofPlan, { ...lost, value: 'pro' }, 'cell__value'],
    [FUNNEL, { step: 3 }, 'cell__step'], [FUNNEL, { step: 1, outcome: 'lost' }, 'cell__step'], [FUNNEL, {}, 'cell__step'],
    [PAID, { series: 1 }, 'cell__series'], [PAID, { previous: true }, 'cell__previous'], [PAID, { start: '2026-03-01' }, 'cell__start'],
    [{ ...PAID, breakdown: { property: 'plan' } }, {}, 'cell__part'],
    [FUNNEL, { step: 2, from_ms: 5 }, 'cell__from_ms'], [FUNNEL, { step: 1, from_ms: 0 }, 'cell__from_ms'], [FUNNEL, { ...lost, from_ms: 0 }, 'cell__from_ms'], [paths, { step: 6 }, 'cell__step'], [paths, { from: 'seen' }, 'cell__step'],
    [lifecycle, { start: '2026-03-05' }, 'cell__state'], [lifecycle, { state: 'new' }, 'cell__start'], [stickiness, {}, 'cell__periods'],
    [PAID, { step: 1 }, 'cell__step'], [PAID, { periods: 1 }, 'cell__periods'], [FUNNEL, { step: 1, start: '2026-03-04' }, 'cell__start'], [FUNNEL, { step: 1, series: 0 }, 'cell__series'],
    [retention, { start: '2026-03-04', state: 'new' }, 'cell__state'], [lifecycle, { start: '2026-03-05', state: 'new', returned: 1 }, 'cell__returned'], [stickiness, { periods: 1, start: '2026-03-05' }, 'cell__start'],
    [stickiness, { periods: 4 }, 'cell__periods'], [paths, { step: 1, outcome: 'lost' }, 'cell__outcome'], [ofPlan, { ...lost, part: 'cohort', value: '7' }, 'cell__part'],
    [{ ...PAID, series: [{ event: 'paid', property: 'plan' }] }, {}, 'definition__series__0__property'],
    [retention, {}, 'cell__start'], [retention, { start: 'x' }, 'cell__start'], [retention, { start: '2026-03-04', returned: 2 }, 'cell__returned']
  ] as const) t.match(await behind(definition, cell), { status: 400, body: { attr } }, JSON.stringify(cell))
  t.match(await callAs(['query:read'], null, '/persons', { definition: FUNNEL, cell: lost }), { status: 403, body: { code: 'permission_denied' } })
})

t.test('the persons behind a number are those that it counted, whatever is stored later and whenever they are listed', async (t) => {
  const { call, projectId } = await api.inNewProject()
  const started = clock
  t.teardown(() => { clock = started })
  const store = async (storedAt: string, persons: string[], days: string[]): Promise<void> => await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: days.flatMap((day) => persons.flatMap((person) => ['seen', 'paid'].map((event, index) => ({
      project_id: projectId, uuid: crypto.randomUUID(), event, distinct_id: person, timestamp: `2026-03-${day} 1${index}:30:00`,
      received_at: storedAt, inserted_at: storedAt, properties: '{}'
    }))))
  }).then(() => {})
  await store('2026-03-05 11:59:59', ['a', 'b', 'c'], ['01', '02', '04', '05'])
  await store('2026-03-05 11:59:59', ['d'], ['05'])
  const shared = { version: 1, range: { last: 3, unit: 'day' }, interval: 'day' }
  const asked: [object, object, (answer: any) => number][] = [
    [PAID, {}, ({ lines }) => lines[0].total],
    [PAID, { start: '2026-03-04' }, ({ lines }) => lines[0].values[1]],
    [{ ...PAID, compare: true }, { previous: true }, ({ previous }) => previous.lines[0].total],
    [FUNNEL, { step: 2 }, ({ parts }) => parts[0].steps[1].people],
    [{ ...shared, kind: 'retention', start: { event: 'seen' }, cohort: 'any' }, { start: '2026-03-04', returned: 1 }, ({ cohorts }) => cohorts[1].returned[1].people],
    [{ ...shared, kind: 'lifecycle', activity: { event: 'paid' } }, { start: '2026-03-05', state: 'new' }, ({ states }) => states[0].values[2]],
    [{ ...shared, kind: 'stickiness', activity: { event: 'paid' } }, { periods: 2 }, ({ counts }) => counts[1].people],
    [{ version: 1, range: shared.range, kind: 'paths', from: { event: 'seen' } }, {}, ({ people }) => people]
  ]
  const answers: any[] = []
  for (const [definition] of asked) answers.push((await call('POST', '~/questions/answer', { definition })).body)
  const numbers = answers.map(({ answer }, index) => asked[index]![2](answer))
  t.same(numbers, [4, 3, 3, 4, 3, 1, 3, 4])
  const list = async (isThen: boolean): Promise<number[]> => {
    const counts: number[] = []
    for (const [index, [definition, cell]] of asked.entries()) {
      const { status, body } = await call('POST', '~/questions/persons', { definition, cell, ...isThen && { as_of: answers[index].as_of } })
      t.equal(status, 200)
      t.equal(body.results.length, body.people)
      counts.push(body.people)
    }
    return counts
  }

  // Late ones, ones of now, and ones of a day that the range no longer has tomorrow.
  await store('2026-03-05 12:00:01', ['late', 'a'], ['01', '02', '03', '04', '05'])
  await store('2026-03-05 12:00:01', ['new'], ['05'])
  clock += 60_000
  const grown = await list(false)
  t.ok(numbers.every((number, index) => number !== grown[index]), `without a moment they have grown: ${grown}`)
  t.same(await list(true), numbers)
  clock += 86_400_000
  t.same(await list(true), numbers, 'a day later')
  t.match(await call('POST', '~/questions/persons', { definition: PAID, cell: {}, as_of: 'yesterday' }), { status: 400, body: { attr: 'as_of' } })

  const ids = new Map((await (await client.query({ query: `SELECT distinct_id, toString(any(person_id)) AS id FROM events WHERE project_id = ${projectId} GROUP BY 1`, format: 'JSONEachRow' })).json<{ distinct_id: string, id: string }>()).map((row) => [row.distinct_id, row.id]))
  await client.insert({ table: 'person_overrides', format: 'JSONEachRow', values: [{ project_id: projectId, old_person_id: ids.get('b'), person_id: ids.get('a'), version: 1, is_deleted: 0 }] })
  t.equal((await list(true))[0], 3, 'merged persons are one')
})

t.test('an answer names events that were never sent, and a retention begins with the first event', async (t) => {
  const { body } = await api.call('POST', '~/questions/answer', { definition: { ...FUNNEL, steps: [{ event: 'payd' }, { event: 'paid' }, {}], exclude: [{ event: 'nobody' }] } })
  t.match(body, { unknown_events: ['payd', 'nobody'], first_event_at: '2026-03-04T10:00:00.000Z' })
  const retention = { kind: 'retention', version: 1, range: { last: 4, unit: 'day' }, interval: 'day', start: { event: 'seen' } }
  const { body: returned } = await api.call('POST', '~/questions/answer', { definition: retention })
  t.same(returned.answer.cohorts.map(({ people }: { people: number | null }) => people), [null, null, 1, 1])
  const { call } = await api.inNewProject()
  t.match((await call('POST', '~/questions/answer', { definition: retention })).body, { unknown_events: ['seen'], first_event_at: null, answer: { cohorts: [{ people: 0 }] } })
})

t.test('long values of a breakdown are cut, stay apart, and lead to their persons', async (t) => {
  const { call, projectId } = await api.inNewProject()
  const long = 'é'.repeat(50_000)
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [`${long}a`, `${long}b`, 'x'.repeat(200)].map((plan, index) => ({
      project_id: projectId, uuid: crypto.randomUUID(), event: 'seen', distinct_id: `u${index}`, timestamp: '2026-03-05 09:00:00',
      received_at: '2026-03-05 09:00:00', properties: JSON.stringify({ plan })
    }))
  })
  const breakdown = { property: 'plan' }
  const { answer } = (await call('POST', '~/questions/answer', { definition: { ...PAID, series: [{ event: 'seen', measure: 'events' }], breakdown } })).body
  const values: string[] = answer.lines.map(({ value }: { value: string }) => value)
  t.equal(new Set(values).size, 3)
  t.equal(values.filter((value) => /^é{200}… \(cut, 50001 characters, hash [0-9a-f]{1,16}\)$/.test(value)).length, 2)
  t.ok(values.includes('x'.repeat(200)), 'one that is not longer is whole')

  const definition = { ...FUNNEL, breakdown }
  t.same((await call('POST', '~/questions/answer', { definition })).body.answer.parts.slice(1).map(({ value }: { value: string }) => value).sort(), values.sort())
  t.equal((await call('POST', '~/questions/persons', { definition, cell: { step: 1, part: 'value', value: values[2] } })).body.people, 1)
})

t.test('a key for one project asks, and sees the events of that project only', async (t) => {
  t.match((await callAs(['query:read'], [api.projectId], '/answer', { definition: PAID })).body.answer.lines, [{ total: 1 }])
  t.equal((await callAs(['event:read'], [api.projectId], '/answer', { definition: PAID })).status, 403)
  const other = await api.inNewProject()
  t.equal((await callAs(['query:read'], [other.projectId], '/answer', { definition: PAID })).status, 404)
  t.match((await other.call('POST', '~/questions/answer', { definition: PAID })).body.answer.lines, [{ total: 0, values: [0, 0, 0] }])
})

t.test('somebody who does not see persons asks only what is shown, and gets what others saved', async (t) => {
  const { call, projectId } = await api.inNewProject()
  const contacts = ['secret@person.example', 'secret@other.example', `${'x'.repeat(190)} secret@person.example`, '["a","secret\\u0040person.example"]', 'by phone']
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: contacts.map((contact, index) => ({
      project_id: projectId, uuid: crypto.randomUUID(), event: 'paid', distinct_id: `u${index}`, timestamp: '2026-03-05 09:00:00', received_at: '2026-03-05 09:00:00',
      properties: `{"contact":${contact.startsWith('[') ? contact : JSON.stringify(contact)}}`
    }))
  })
  const email = `viewer${projectId}@example.com`
  await api.sql`
    WITH viewer AS (INSERT INTO users (email, has_roles) VALUES (${email}, true) RETURNING id)
    INSERT INTO memberships (user_id, project_id, role) SELECT id, ${projectId}, 'viewer' FROM viewer`
  const { key } = await createPersonalKey(api.sql, { email, label: '', scopes: ['*'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  const callAsViewer = async (method: 'GET' | 'POST', path: string, body?: object) => await send(api.app, {
    method, url: `/api/projects/${projectId}${path}`, headers: { authorization: `Bearer ${key}` }, ...body !== undefined && { payload: body }
  })
  const define = (operator: string, value: string, more = {}) => ({ ...PAID, series: [{ event: 'paid', where: [{ key: 'contact', operator, value }] }], ...more })
  const count = async (by: typeof callAsViewer, definition: object): Promise<number> =>
    (await by('POST', '/questions/answer', { definition })).body.answer.lines.reduce((sum: number, { total }: { total: number }) => sum + total, 0)
  const countBoth = async (...asked: Parameters<typeof define>) => [
    await count(async (method, path, body) => await call(method, `~${path}`, body), define(...asked)), await count(callAsViewer, define(...asked))]

  t.same(await countBoth('icontains', 'secret'), [4, 0])
  t.same(await countBoth('starts_with', 's'), [2, 0])
  t.same(await countBoth('regex', 'person|other'), [4, 0])
  t.same(await countBoth('not_icontains', 'secret'), [1, 5])
  t.same(await countBoth('icontains', '***'), [0, 4])
  t.same(await countBoth('icontains', 'phone'), [1, 1])
  t.same(await countBoth('is_set', ''), [5, 5])
  const { body } = await callAsViewer('POST', '/questions/answer', { definition: define('is_set', '', { breakdown: { property: 'contact' } }) })
  t.match(body.answer.lines.map(({ value, total }: Record<string, unknown>) => [value, total]).sort(), [
    ['***@***', 2], ['["a","***@***"]', 1], ['by phone', 1], [`${'x'.repeat(190)} ***@***`, 1]
  ])

  const { body: saved } = await call('POST', '~/questions', { name: 'Saved', definition: define('exact', 'secret@person.example') })
  const { body: board } = await call('POST', '~/boards', { name: 'Board', tiles: [{ kind: 'question', id: saved.id }] })
  const answered = await callAsViewer('GET', `/questions/${saved.id}/answer`)
  t.match(answered, { status: 200, body: { answer: { lines: [{ total: 1 }] } } })
  const tile = await callAsViewer('GET', `/boards/${board.id}/answers/question/${saved.id}`)
  t.match(tile, { status: 200, body: { question: { answer: { lines: [{ total: 1 }] } } } })
  t.notMatch(JSON.stringify([body, answered, tile]), /secret/)
})

t.test('names with every kind of quote stay names', async (t) => {
  const hostile = "x'\\' OR 1=1 -- `\"{a:String}"
  const series = [{ event: hostile, where: [{ key: hostile, operator: 'exact', value: hostile }], measure: 'sum', property: hostile }]
  const { status, body } = await api.call('POST', '~/questions/answer', { definition: { ...PAID, series, breakdown: { property: hostile } } })
  t.match({ status, body }, { status: 200, body: { answer: { lines: [] } } })
})

t.test('the stored persons behind a number become a cohort that flags can name', async (t) => {
  const { call, projectId } = await api.inNewProject()
  const ids = ['p1', 'p2', 'p3']
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: ids.map((distinctId) => ({
      project_id: projectId, uuid: crypto.randomUUID(), event: 'paid', distinct_id: distinctId, timestamp: '2026-03-05 09:00:00', received_at: '2026-03-05 09:00:00', inserted_at: '2026-03-05 11:30:00', properties: '{}'
    }))
  })
  const persons = await client.query({ query: `SELECT distinct_id, toString(person_id) AS person FROM events WHERE project_id = ${projectId} ORDER BY 1`, format: 'JSONEachRow' })
  const known = (await persons.json<{ distinct_id: string, person: string }>()).slice(0, 2)
  for (const { distinct_id: id, person } of known) {
    await api.sql`WITH p AS (INSERT INTO persons (project_id, uuid) VALUES (${projectId}, ${person}) RETURNING id)
      INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${projectId}, ${id}, id FROM p`
  }
  const question = { definition: PAID, cell: { start: '2026-03-05' } }
  const { status, body: cohort } = await call('POST', '~/cohorts', { name: 'Payers', question })
  t.match({ status, cohort }, { status: 201, cohort: { name: 'Payers', is_static: true, filters: null, people: 2 } }, 'nobody is stored of the third')
  t.match((await call('GET', '~/cohorts')).body.results, [{ name: 'Payers', people: 2, kind: 'list' }])
  t.equal((await call('POST', '~/feature_flags', { key: 'for-payers', filters: { groups: [{ properties: [{ type: 'cohort', key: 'id', operator: 'in', value: cohort.id }] }] } })).status, 201)

  t.match(await call('POST', '~/cohorts', { name: 'Before', question, as_of: '2026-03-05T11:00:00Z' }), { status: 201, body: { people: 0 } }, 'stored later')

  const living = await call('POST', '~/cohorts', { name: 'Living', question, living: true })
  const fixed = { ...question, definition: { ...PAID, range: { from: '2026-03-03', to: '2026-03-05' } } }
  t.match(living, { status: 201, body: { kind: 'question', is_static: false, people: null, question: fixed } }, 'a day stays that day')
  const did = { type: 'behavioral', value: 'performed_event', time_value: 1, time_interval: 'day' }
  const { body: misspelt } = await call('POST', '~/cohorts', { name: 'Misspelt', filters: { type: 'AND', values: [{ ...did, key: 'paid' }, { ...did, key: 'payd', negation: true }] } })
  t.match((await call('GET', `~/cohorts/${misspelt.id}`)).body, { people: null, as_of: null, unknown_events: ['payd'] })
  t.same((await call('GET', `~/cohorts/${living.body.id}`)).body.unknown_events, [])
  const whole = await call('POST', '~/cohorts', { name: 'Whole', question: { definition: PAID, cell: {} }, living: true })
  t.match(whole, { status: 201, body: { question: { definition: PAID } } })
  t.match(await call('POST', '~/cohorts', { name: 'n', question: { definition: PAID, cell: { start: '2026-02-01' } }, living: true }), { status: 400, body: { attr: 'question__cell__start' } })
  const narrowed = { ...PAID, series: [{ event: 'paid', measure: 'people', where: [{ type: 'cohort', value: living.body.id, operator: 'in' }] }] }
  t.match(await call('POST', '~/questions/answer', { definition: narrowed }), { status: 400, body: { attr: 'definition__series__0__where__0__value', detail: /have not been found yet/ } })
  await client.insert({
    table: 'cohort_members', format: 'JSONEachRow',
    values: ['00000000-0000-0000-0000-000000000000', known[0]!.person].map((person) => ({ project_id: projectId, cohort_id: living.body.id, version: 5, person_id: person, size: 2 }))
  })
  await api.sql`INSERT INTO cohort_refreshes (cohort_id, refreshed_at, people, tried_at) VALUES (${living.body.id}, '2026-03-05T11:00:00Z', 1, now())`
  t.match(await call('POST', '~/questions/answer', { definition: narrowed }), {
    status: 200, body: { cohorts: [{ name: 'Living', as_of: '2026-03-05T11:00:00.000Z' }], answer: { lines: [{ total: 1 }] } }
  })
  const split = { ...PAID, breakdown: { type: 'cohort', cohorts: [living.body.id] } }
  t.match((await call('POST', '~/questions/answer', { definition: split })).body.answer.lines.map(({ part, value, total }: Record<string, unknown>) => [part, value, total]),
    [['not_set', null, 2], ['cohort', String(living.body.id), 1]])
  t.match(await call('POST', '~/questions/persons', { definition: split, cell: { part: 'cohort', value: String(living.body.id) } }), { status: 200, body: { people: 1 } })

  // Refreshed after the answer, with other members, by a refresh of a second.
  const answered = (await call('POST', '~/questions/answer', { definition: narrowed })).body
  const begun = clock + 60_000
  await client.insert({
    table: 'cohort_members', format: 'JSONEachRow',
    values: ['00000000-0000-0000-0000-000000000000', ...known.map(({ person }) => person)].map((person) => ({ project_id: projectId, cohort_id: living.body.id, version: begun, person_id: person, size: 3 }))
  })
  await api.sql`UPDATE cohort_refreshes SET refreshed_at = ${new Date(begun)}, people = 2, took = 1000 WHERE cohort_id = ${living.body.id}`
  const list = async (at?: number | string) => await call('POST', '~/questions/persons', { definition: narrowed, cell: {}, ...at !== undefined && { as_of: new Date(at).toISOString() } })
  t.match((await list()).body, { people: 2 })
  t.match((await list(answered.as_of)).body, { people: 1, results: [{ person_id: known[0]!.person }], cohorts: [{ as_of: '1970-01-01T00:00:00.005Z' }] }, 'those of the answer')
  const began = clock
  t.teardown(() => { clock = began })
  clock += 120_000
  t.match(await list(begun + 999), { status: 400, body: { attr: 'as_of', detail: /Living.*Answer the question again/ } }, 'whether it had ended is unknown')
  t.match((await list(begun + 1000)).body, { people: 2 })
  await client.command({ query: `ALTER TABLE cohort_members DROP PARTITION (${living.body.id}, 5)` })
  t.match(await list(answered.as_of), { status: 400, body: { attr: 'as_of' } }, 'no longer stored')
  const then = { ...question, definition: { ...PAID, range: { last: 1, unit: 'day' } } }
  clock += 86_400_000
  t.match(await call('POST', '~/cohorts', { name: 'Then', question: then, living: true, as_of: answered.as_of }), { status: 201, body: { question: { definition: { range: { from: '2026-03-05', to: '2026-03-05' } } } } })
  clock = began
  t.match(await call('POST', '~/questions/answer', { definition: { ...PAID, breakdown: { type: 'cohort', cohorts: [77] } } }), { status: 400, body: { attr: 'definition__breakdown__cohorts', detail: 'Cohort 77 does not exist.' } })

  t.match(await call('POST', '~/cohorts', { name: 'Both', question, filters: {} }), { status: 400, body: { attr: 'filters' } })
  t.match(await call('POST', '~/cohorts', { name: 'Neither' }), { status: 400, body: { attr: 'filters' } })
  t.match(await call('POST', '~/cohorts', { name: 'n', question: { definition: PAID, cell: { series: 3 } } }), { status: 400, body: { attr: 'question__cell__series' } })
  t.match(await call('POST', '~/cohorts', { name: 'n', question: { definition: { ...PAID, interval: 'century' }, cell: {} } }), { status: 400, body: { attr: 'question__definition__interval' } })
  t.match(await call('POST', '~/cohorts', { name: 'n', filters: { type: 'AND', values: [] }, as_of: '2026-03-05T11:00:00Z' }), { status: 400, body: { attr: 'as_of' } })
  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes: ['feature_flag:write', 'query:read'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  t.equal((await send(api.app, { method: 'POST', url: `/api/projects/${projectId}/cohorts`, headers: { authorization: `Bearer ${key}` }, payload: { name: 'n', question } })).status, 403)
})
