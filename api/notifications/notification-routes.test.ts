import t from 'tap'
import { queueNotifications } from '../../platform/notifications.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi, send } from '../testing/create-test-api.ts'
import { waitFor } from '../../test/support/wait-for.ts'

const { client: clickhouse, url } = await createTestClickHouse(t)
const analystUrl = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href
const api = await createTestApi(t, { clickhouse, analystUrl })
const HOUR = 3_600_000
const END = Date.parse('2026-05-31T00:00:00Z')

t.test('a target shows no secrets, and takes back what it showed', async (t) => {
  const { status, body: created } = await api.call('POST', '~/targets/', { name: 'slack', kind: 'slack', url: 'https://hooks.slack.com/services/T0/B0/secret' })
  t.equal(status, 201)
  t.match(created, { url: 'https://hooks.slack.com/…', enabled: true, events: [], each_event: false, waiting: 0, failing_since: null, last_error: null })
  t.notMatch(JSON.stringify((await api.call('GET', '~/targets/')).body), 'secret')
  t.match(await api.call('PATCH', `~/targets/${created.id}`, { ...created, description: 'ours' }), { status: 200, body: { description: 'ours' } })
  t.same(await api.sql`SELECT url FROM targets WHERE id = ${created.id}`, [{ url: 'https://hooks.slack.com/services/T0/B0/secret' }])
  const described = await api.sql.begin(async (transaction) => {
    await transaction`UPDATE targets SET url = 'https://hooks.slack.com/new' WHERE id = ${created.id}`
    const change = api.call('PATCH', `~/targets/${created.id}`, { description: 'theirs' })
    await waitFor(async () => (await api.sql`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE targets%'`).length > 0)
    return { change }
  })
  t.equal((await described.change).status, 200)
  t.same(await api.sql`SELECT url FROM targets WHERE id = ${created.id}`, [{ url: 'https://hooks.slack.com/new' }], 'a change without a url writes none')
  t.match(await api.call('POST', `~/targets/${created.id}/secret`), { status: 200, body: { secret: /^whsec_/ } })
  await api.call('PATCH', `~/targets/${created.id}`, { enabled: false })
  t.match(await api.call('POST', `~/targets/${created.id}/test`), { status: 409, body: { code: 'conflict' } })
  t.equal((await api.call('POST', '~/targets/999999/test')).status, 404)
})

t.test('a test retries what waits before it at once', async (t) => {
  const { body: { id } } = await api.call('POST', '~/targets/', { name: 'repaired', kind: 'webhook', url: 'https://example.com/hook' })
  await queueNotifications(api.sql, id, [{ type: 'event', data: '{}', text: 'waits' }])
  await api.sql`UPDATE notifications SET attempts = 9, next_attempt_at = now() + interval '5 minutes' WHERE target_id = ${id}`
  const tested = api.call('POST', `~/targets/${id}/test`)
  const isDue = async (): Promise<boolean> => (await api.sql`SELECT FROM notifications WHERE target_id = ${id} AND next_attempt_at <= now()`).length === 2
  await waitFor(isDue)
  await api.sql`DELETE FROM notifications WHERE target_id = ${id}`
  t.match(await tested, { status: 200, body: { delivered: true, error: null } })
})

t.test('a url that parsers mend shows no secret either', async (t) => {
  for (const url of ['https:example.com/secret', 'https:/example.com/secret', 'https://example.com\\secret', 'https:\\\\example.com\\secret']) {
    const { status, body } = await api.call('POST', '~/targets/', { name: url, kind: 'webhook', url })
    t.equal(status, 201, url)
    t.notMatch(body.url, 'secret')
    t.equal((await api.call('PATCH', `~/targets/${body.id}`, { url: body.url, description: 'ours' })).status, 200)
    t.same(await api.sql`SELECT url FROM targets WHERE id = ${body.id}`, [{ url }])
  }
})

t.test('what a target cannot be is refused by the field at fault', async (t) => {
  const refused: [object, string][] = [
    [{ kind: 'pager' }, 'kind'], [{ url: 'ftp://example.com' }, 'url'], [{ url: 'javascript:alert(1)' }, 'url'], [{ url: 'https://user:pw@example.com/' }, 'url'],
    [{ url: 'https://example.com/…' }, 'url'], [{ url: ' https://example.com/' }, 'url'], [{ url: '' }, 'url'], [{ kind: 'mail' }, 'url'],
    [{ kind: 'mail', url: 'mailto:a@example.com,b@example.com' }, 'url'], [{ kind: 'mail', url: 'mailto:a@example.com?bcc=b@example.com' }, 'url'],
    [{ kind: 'mail', url: 'mailto:a@example.com', events: ['paid'] }, 'events'],
    [{ kind: 'mail', url: 'mailto:a@example.com', each_event: true }, 'each_event'], [{ events: ['a', 'a'] }, 'events'], [{ secret: 'x' }, 'secret'], [{ name: ' ' }, 'name']
  ]
  for (const [fields, attr] of refused) {
    const { status, body } = await api.call('POST', '~/targets/', { name: 'other', kind: 'webhook', url: 'https://example.com/hook', ...fields })
    t.match([status, body.attr], [400, attr], JSON.stringify(fields))
  }
  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes: ['project:write'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  const make = async (events: string[]) => await send(api.app, {
    method: 'POST', url: `/api/projects/${api.projectId}/targets`, headers: { authorization: `Bearer ${key}` }, payload: { name: 'leak', kind: 'webhook', url: 'https://example.com', events }
  })
  t.match(await make(['paid']), { status: 403, body: { code: 'permission_denied' } }, 'events need the right to read them')
  t.equal((await make([])).status, 201)
})

let planted = 0
async function plant (): Promise<{ question: number, funnel: number, query: number, board: number, target: number }> {
  const suffix = ` ${++planted}`
  const make = async (path: string, { name, ...body }: { name: string, [field: string]: unknown }): Promise<number> =>
    (await api.call('POST', path, { name: name + suffix, ...body })).body.id
  const question = await make('~/questions/', { name: 'Payments', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  return {
    question,
    funnel: await make('~/questions/', { name: 'Funnel', definition: { kind: 'funnel', version: 1, steps: [{ event: 'a' }, { event: 'b' }] } }),
    query: await make('~/saved_queries/', { name: 'Payments', query: "SELECT count() FROM events WHERE event = 'paid' AND received_at >= {from:DateTime} AND received_at < {to:DateTime}" }),
    board: await make('~/boards/', { name: 'Board', tiles: [{ kind: 'question', id: question }] }),
    target: await make('~/targets/', { name: 'ops', kind: 'mail', url: 'mailto:ops@example.com' })
  }
}

t.test('an alert is about something that can be watched, with a condition of its kind', async (t) => {
  const { question, funnel, query, board, target } = await plant()
  const valid = { name: 'alert', about: { kind: 'question', id: question }, every: 'hour', condition: { is: 'above', value: 1 }, targets: [target] }
  const refused: [object, string][] = [
    [{ about: { kind: 'question', id: 999_999 } }, 'about__id'], [{ about: { kind: 'question', id: funnel } }, 'about__id'], [{ about: { kind: 'cohort', id: 1 } }, 'about__kind'],
    [{ condition: null }, 'condition'], [{ condition: { is: 'equals', value: 1 } }, 'condition__is'], [{ condition: { is: 'above' } }, 'condition__value'], [{ every: 'week' }, 'every'],
    [{ condition: { is: 'falls_by', value: 500 } }, 'condition__value'], [{ condition: { is: 'falls_by', value: 0 } }, 'condition__value'], [{ condition: { is: 'rises_by', value: -50 } }, 'condition__value'],
    [{ targets: [] }, 'targets'], [{ targets: [target, 999_999] }, 'targets__1'], [{ about: { kind: 'board', id: board } }, 'condition'],
    [{ about: { kind: 'board', id: board }, condition: null, every: 'hour' }, 'every']
  ]
  for (const [fields, attr] of refused) {
    const { status, body } = await api.call('POST', '~/alerts/', { ...valid, ...fields })
    t.match([status, body.attr], [400, attr], JSON.stringify(fields))
  }
  const { status, body: created } = await api.call('POST', '~/alerts/', valid)
  t.match([status, created], [201, { is_firing: false, evaluated_through: null, last_error: null, enabled: true }])
  await api.sql`INSERT INTO window_tasks (subject, done_through) VALUES (${`alert:${created.id}`}, '2026-05-04 10:00Z')`
  const evaluated = async (): Promise<unknown> => (await api.call('GET', `~/alerts/${created.id}`)).body.evaluated_through
  t.equal(await evaluated(), null, 'the window that is open')
  await api.sql`INSERT INTO alert_windows (alert_id, window_from, window_to) VALUES (${created.id}, '2026-05-04 10:00Z', '2026-05-04 11:00Z')`
  t.equal(await evaluated(), '2026-05-04T11:00:00.000Z')
  t.match(await api.call('PATCH', `~/alerts/${created.id}`, { every: 'week' }), { status: 400, body: { attr: 'every' } }, 'a change is looked at with the rest')
  t.match(await api.call('PATCH', `~/alerts/${created.id}`, { about: { kind: 'saved_query', id: query } }), { status: 200 })
  await api.call('PATCH', `~/saved_queries/${query}`, { query: 'SELECT 1' })
  t.match(await api.call('PATCH', `~/alerts/${created.id}`, { description: 'x' }), { status: 400, body: { attr: 'about__id' } })

  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes: ['*'], projectIds: [api.projectId], expiresAt: null })
  await api.keys.refresh()
  const answer = await send(api.app, {
    method: 'POST', url: `/api/projects/${api.projectId}/alerts`, headers: { authorization: `Bearer ${key}` }, payload: { ...valid, name: 'sql', about: { kind: 'saved_query', id: query } }
  })
  t.equal(answer.status, 403, 'SQL reads all projects')
})

t.test('what an alert needs is not deleted', async (t) => {
  const { question, query, board, target } = await plant()
  const other = await plant()
  const condition = { is: 'above', value: 1 }
  const abouts = [{ kind: 'question', id: question }, { kind: 'saved_query', id: query }, { kind: 'board', id: board }]
  const paths = [`~/questions/${question}`, `~/saved_queries/${query}`, `~/boards/${board}`]
  for (const [n, about] of abouts.entries()) {
    const { status, body } = await api.call('POST', '~/alerts/', { name: `needs ${n}`, about, every: 'day', condition: about.kind === 'board' ? null : condition, targets: [target] })
    t.equal(status, 201)
    const refused = { status: 400, body: { code: 'has_dependents', detail: new RegExp(`is used by the alert needs ${n}`) } }
    t.match([await api.call('DELETE', String(paths[n])), await api.call('DELETE', `~/targets/${target}`)], [refused, refused])
    await api.call('DELETE', `~/alerts/${body.id}`)
    t.equal((await api.call('DELETE', String(paths[n]))).status, 204)
  }
  t.equal((await api.call('DELETE', `~/targets/${other.target}`)).status, 204)
})

t.test('an alert runs SQL only with the rights of whoever changed it last', async (t) => {
  const { query, board, target } = await plant()
  const email = 'both@example.com'
  const roles = [{ project_id: null, role: 'viewer' }, { project_id: api.projectId, role: 'editor' }]
  t.equal((await api.call('POST', '/api/invitations', { email, roles })).status, 201)
  const { key } = await createPersonalKey(api.sql, { email, label: '', scopes: ['*'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  const callAs = async (method: 'POST' | 'PATCH', path: string, payload: object) =>
    await send(api.app, { method, url: `/api/projects/${api.projectId}/alerts${path}`, headers: { authorization: `Bearer ${key}` }, payload })
  const report = { name: 'report', about: { kind: 'board', id: board }, every: 'day', targets: [target] }
  const onSql = { name: 'sql', about: { kind: 'saved_query', id: query }, every: 'hour', condition: { is: 'above', value: 1 }, targets: [target] }
  const mayRunSql = async (id: number) => await api.sql`SELECT may_run_sql AS may FROM alerts WHERE id = ${id}`

  t.match(await callAs('POST', '', onSql), { status: 403, body: { code: 'permission_denied' } })
  t.match(await callAs('POST', '/dry_run', { about: onSql.about, every: 'hour', condition: onSql.condition }), { status: 403 })
  const { body: theirs } = await callAs('POST', '', report)
  t.same(await mayRunSql(theirs.id), [{ may: false }])
  const { body: ours } = await api.call('POST', '~/alerts', { ...report, name: 'ours' })
  t.same(await mayRunSql(ours.id), [{ may: true }])
  t.match(await callAs('PATCH', `/${ours.id}`, { description: 'mine now' }), { status: 200 })
  t.same(await mayRunSql(ours.id), [{ may: false }], 'with a role in one project only')
})

t.test('a dry run says when it would have fired', async (t) => {
  const { question, query } = await plant()
  const hours = Array.from({ length: 37 * 24 }, (_, hour) => hour)
  const events = hours.flatMap((hour) => Array.from({ length: hour === 800 || hour === 801 ? 5 : 1 }, () => {
    const at = new Date(END - 37 * 24 * HOUR + hour * HOUR + 1000).toISOString().slice(0, -1).replace('T', ' ')
    return { project_id: api.projectId, uuid: crypto.randomUUID(), event: 'paid', distinct_id: 'ann', timestamp: at, received_at: at, properties: '{}' }
  }))
  await clickhouse.insert({ table: 'events', format: 'JSONEachRow', values: events, clickhouse_settings: { insert_deduplication_token: 'a', async_insert: 0 } })
  await clickhouse.command({ query: "INSERT INTO watermark_reached SELECT 0, {through: DateTime64(3)}, tuple(now64(3), '')", query_params: { through: new Date(END + 60_000) } })
  const at = (hour: number): string => new Date(END - 37 * 24 * HOUR + hour * HOUR).toISOString()
  const expected = {
    from: at(7 * 24), to: at(37 * 24), windows: 720,
    results: [{ from: at(800), to: at(801), value: 5, outcome: 'fired' }, { from: at(802), to: at(803), value: 1, outcome: 'resolved' }]
  }
  for (const condition of [{ is: 'above', value: 4 }, { is: 'rises_by', value: 300 }]) {
    const { status, body } = await api.call('POST', '~/alerts/dry_run', { about: { kind: 'question', id: question }, every: 'hour', condition })
    t.match([status, body], [200, expected], condition.is)
    t.equal(body.results[0].before, condition.is === 'above' ? null : 1)
  }
  const { status, body } = await api.call('POST', '~/alerts/dry_run', { about: { kind: 'saved_query', id: query }, every: 'day', condition: { is: 'above', value: 24 } })
  t.match([status, body], [200, { windows: 30, results: [{ value: 32, outcome: 'fired' }, { value: 24, outcome: 'resolved' }] }])
})

t.test('the value of a saved query is a number, or becomes one, or is refused at saving and in a dry run', async (t) => {
  const { target } = await plant()
  const between = 'FROM events WHERE received_at >= {from:DateTime} AND received_at < {to:DateTime}'
  const save = async (column: string, from = between) => {
    const { body: { id } } = await api.call('POST', '~/saved_queries/', { name: `value ${++planted}`, query: `SELECT ${column} ${from}` })
    const alert = { about: { kind: 'saved_query', id }, every: 'day', condition: { is: 'above', value: 2 } }
    const { status, body } = await api.call('POST', '~/alerts/', { name: `value ${planted}`, ...alert, targets: [target] })
    return { status, body, query: id, dry: async () => await api.call('POST', '~/alerts/dry_run', alert) }
  }
  const fires = { status: 200, body: { results: [{ value: 27, outcome: 'fired' }] } }
  for (const column of ['toString(count() + 3)', 'toDecimal64(count() + 3, 2)', 'toUInt64(count() + 3)', 'toNullable(count() + 3)', "concat(' ', toString(count() + 3))"]) {
    t.match(await save(column), { status: 201 }, column)
  }
  t.match(await (await save('toString(count() + 3)')).dry(), fires)
  t.match(await (await save('count() + 3', `${between} SETTINGS output_format_json_quote_64bit_integers = 1`)).dry(), fires)
  t.match(await save('avgOrNull(sample_weight)'), { status: 201 }, 'no number in this window')
  for (const column of ["max('many')", 'max(received_at)', 'maxOrNull(received_at)', 'groupArray(event)', 'NULL, count()']) {
    const refused = { status: 400, body: { attr: 'about__id', detail: /must be a number/ } }
    const saved = await save(column)
    t.match([saved, await saved.dry()], [refused, refused], column)
  }
  t.match(await save('nothing'), { status: 400 }, 'one that fails')
  const { body: { id }, query } = await save('count()')
  await api.call('PATCH', `~/saved_queries/${query}`, { query: `SELECT max('few') ${between}` })
  t.match(await api.call('PATCH', `~/alerts/${id}`, { description: 'again' }), { status: 400, body: { attr: 'about__id' } })
  t.match(await api.call('PATCH', `~/alerts/${id}`, { enabled: false }), { status: 200, body: { enabled: false } })
})
