import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi } from '../testing/create-test-api.ts'

const { client: clickhouse } = await createTestClickHouse(t)
const api = await createTestApi(t, { clickhouse })
await clickhouse.command({ query: "INSERT INTO watermark_reached SELECT 0, toDateTime64('2026-05-04 10:30:00', 3), tuple(now64(3), '')" })

const TARGET = { kind: 's3', endpoint: 'http://127.0.0.1:9000', bucket: 'lake', access_key_id: 'me', secret_access_key: 'very secret' }
const EXPORT = { name: 'warehouse', schedule: 'hour', target: TARGET }

t.test('an export is made, shown without its secret, and keeps it when sent back', async (t) => {
  const { call, sql } = await api.inNewProject()
  const filter = { events: ['order paid'], where: [{ key: 'plan', operator: 'exact', value: 'pro' }] }

  const { status, body: created } = await call('POST', '~/exports', { ...EXPORT, filter })

  t.equal(status, 201)
  t.match(created, { name: 'warehouse', tables: ['events'], paused: false, filter, target: { ...TARGET, region: 'us-east-1', prefix: '', secret_access_key: '********' } })
  const { body: changed } = await call('PATCH', `~/exports/${created.id}`, { ...created, paused: true })
  t.match(changed, { paused: true, target: created.target })
  t.notMatch(JSON.stringify([created, changed, (await call('GET', '~/exports')).body]), /very secret/)
  t.match(await sql`SELECT secure_value FROM exports WHERE id = ${created.id}`, [{ secure_value: 'very secret' }])
  t.notMatch(JSON.stringify(await sql`SELECT before, after FROM record WHERE object = 'exports'`), /very secret/)
  await call('PATCH', `~/exports/${created.id}`, { target: { ...created.target, secret_access_key: 'another' } })
  t.match(await sql`SELECT secure_value, target FROM exports WHERE id = ${created.id}`, [{ secure_value: 'another', target: { bucket: 'lake' } }])
  t.match(created, { done_through: null, lag_seconds: 0, progress: { rows: 0 }, error: '' })
  const through = async (moment: string): Promise<unknown> => {
    await sql`INSERT INTO window_tasks (subject, done_through) VALUES (${`export:${created.id}`}, ${moment}) ON CONFLICT (subject) DO UPDATE SET done_through = ${moment}`
    return (await call('GET', `~/exports/${created.id}`)).body.done_through
  }
  const first = new Date(Math.floor(Date.parse(created.created_at) / 3_600_000) * 3_600_000).toISOString()
  t.equal(await through(first), null, 'its first window is open')
  const second = new Date(Date.parse(first) + 3_600_000).toISOString()
  t.equal(await through(second), second)
  t.equal((await call('DELETE', `~/exports/${created.id}`)).status, 204)
  const { body: inFolder } = await call('POST', '~/exports', { ...EXPORT, target: { kind: 'folder' } })
  t.match(await call('PATCH', `~/exports/${inFolder.id}`, { ...inFolder, paused: true }), { status: 200, body: { target: inFolder.target } })
})

t.test('what would break windows or chains is refused by its field', async (t) => {
  const { call } = await api.inNewProject()
  const { body: { id } } = await call('POST', '~/exports', EXPORT)
  const refusals: Array<[string, object, string]> = [
    [`/${id}`, { schedule: 'day' }, 'schedule'],
    [`/${id}`, { name: 'other' }, 'name'],
    [`/${id}`, { target: { ...TARGET, bucket: 'other' } }, 'target__bucket'],
    [`/${id}`, { target: { kind: 'folder' } }, 'target__kind'],
    ['', { ...EXPORT, name: '../etc' }, 'name'],
    ['', { ...EXPORT, name: 'b', target: { ...TARGET, endpoint: 'file:///etc' } }, 'target__endpoint'],
    ['', { ...EXPORT, name: 'b', target: { ...TARGET, secret_access_key: '********' } }, 'target__secret_access_key'],
    ['', { ...EXPORT, name: 'b', target: { kind: 's3' } }, 'target__bucket'],
    ['', { ...EXPORT, name: 'b', target: { ...TARGET, bucket: '../admin?' } }, 'target__bucket'],
    ['', { ...EXPORT, name: 'b', target: { ...TARGET, endpoint: '', region: 'x@10.0.0.1/' } }, 'target__region'],
    ['', { ...EXPORT, name: 'b', target: { kind: 'ftp' } }, 'target__kind'],
    ['', { ...EXPORT, name: 'b', tables: ['users'] }, 'tables__0'],
    ['', { ...EXPORT, name: 'b', target: { ...TARGET, prefix: 'a/../../other/' } }, 'target__prefix'],
    ['', { ...EXPORT, name: 'b', target: { kind: 'folder', bucket: 'lake' } }, 'target__bucket'],
    ['', { ...EXPORT, name: 'b', target: { kind: 'folder', region: 'eu-central-1' } }, 'target__region'],
    ['', { ...EXPORT, name: 'b', target: { kind: 'folder', bucket: '' } }, 'target__bucket'],
    ['', { ...EXPORT, name: 'b', target: { kind: 'folder', region: 'us-east-1' } }, 'target__region'],
    ['', { ...EXPORT, name: 'b', tables: ['persons'], filter: { events: ['paid'] } }, 'filter'],
    ['', { ...EXPORT, name: 'b', filter: { where: [{ key: 'a', value: 'b', negation: true }] } }, 'filter__where__0__negation'],
    ['', { ...EXPORT, name: 'b', filter: { where: [{ key: 'a', value: 'b', type: 'person' }] } }, 'filter__where__0__type'],
    ['', { ...EXPORT, name: 'b', filter: { where: [{ key: 'a', operator: 'like', value: 'b' }] } }, 'filter__where__0__operator'],
    ['', EXPORT, 'name']
  ]
  for (const [path, body, attr] of refusals) {
    t.match(await call(path === '' ? 'POST' : 'PATCH', `~/exports${path}`, body), { status: 400, body: { attr } }, JSON.stringify(body))
  }
})

t.test('a backfill plans the closed windows of a span, each once', async (t) => {
  const { call, projectId } = await api.inNewProject()
  const { body: { id } } = await call('POST', '~/exports', { ...EXPORT, target: { kind: 'folder' }, tables: ['events', 'persons'] })
  const run = async (from: string, to: string) => await call('POST', `~/exports/${id}/run`, { from, to })

  t.match(await run('2026-05-03T22:30:00Z', '2026-05-04T01:59:00Z'), { status: 200, body: { planned: 4 } })
  t.match((await run('2026-05-03T23:00:00Z', '2026-05-04T02:00:00Z')).body, { planned: 2 })
  t.match((await run('2026-05-03T23:00:00Z', '2026-05-04T02:00:00Z')).body, { planned: 0 })
  t.match(await run('2026-05-04T09:00:00Z', '2026-05-04T11:00:00Z'), { status: 400, body: { attr: 'to', detail: /2026-05-04T10:30/ } })
  t.match(await run('2026-05-04T09:00:00Z', '2026-05-04T08:00:00Z'), { status: 400, body: { attr: 'to' } })
  t.match(await run('2020-05-04T09:00:00Z', '2026-05-04T08:00:00Z'), { status: 400, body: { attr: 'to', detail: /10000/ } })
  const { body } = await call('GET', `~/exports/${id}/windows?limit=2`)
  t.match(body, { count: 6, results: [{ table: 'persons', from: '2026-05-04T01:00:00.000Z', revision: 0, reason: 'backfill', written_at: null }, {}] })
  t.match((await call('GET', '~/exports')).body, { results: [{ progress: { planned: 6 }, folder: new RegExp(`^${projectId}/warehouse-`) }] })
  t.equal((await (await api.inNewProject()).call('GET', `~/exports/${id}/windows`)).status, 404)
})

t.test('days of a backfill are those of UTC, also where Postgres lives in a zone with summer time', async (t) => {
  const { call, sql } = await api.inNewProject()
  const { body: { id } } = await call('POST', '~/exports', { ...EXPORT, schedule: 'day', target: { kind: 'folder' } })
  // In every connection of the pool.
  await Promise.all(Array.from({ length: 8 }, async () => await sql`SELECT set_config('TimeZone', 'Europe/Berlin', false) FROM pg_sleep(0.2)`))
  t.match((await call('POST', `~/exports/${id}/run`, { from: '2026-03-27T00:00:00Z', to: '2026-04-01T00:00:00Z' })).body, { planned: 5 })
  t.same((await sql`SELECT window_from AS from, window_to AS to FROM export_windows WHERE export_id = ${id} ORDER BY id`)
    .map(({ from, to }) => [from.toISOString().slice(5, 16), to.toISOString().slice(5, 16)]),
  [['03-27', '03-28'], ['03-28', '03-29'], ['03-29', '03-30'], ['03-30', '03-31'], ['03-31', '04-01']].map((days) => days.map((day) => `${day}T00:00`)))
})
