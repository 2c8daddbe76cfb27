import t from 'tap'
import { connectClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../../platform/logger.ts'
import { createTestClickHouse, createTestPostgres } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createReadPicture } from './tile-pictures.ts'
import { startWindows } from '../run-closed-windows.ts'
import { readPng } from '../testing/read-png.ts'
import { listAlertTasks } from './alert-tasks.ts'
import { readReport } from './analyst-values.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const [{ sql }, { client: clickhouse, url }] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
const analyst = connectClickHouse({ url: Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href })
t.teardown(async () => await analyst.close())
const [{ id: project }] = await sql<[{ id: number }]>`INSERT INTO projects (name) VALUES ('test') RETURNING id`
const [{ id: target }] = await sql<[{ id: number }]>`INSERT INTO targets ${sql({ project_id: project, name: 'ops', kind: 'slack', url: 'http://example.com' })} RETURNING id`

const START = Date.parse('2026-05-11T00:00:00Z')
const HOUR = 3_600_000
const text = (at: number): string => new Date(at).toISOString().slice(0, -1).replace('T', ' ')

/** @param lateMs  Between what happened and its receipt. */
async function insert (hour: number, count: number, { lateMs = 0, event = 'paid' } = {}): Promise<void> {
  const at = START + hour * HOUR + 1000
  await clickhouse.insert({
    table: 'events', format: 'JSONEachRow',
    values: Array.from({ length: count }, (_, index) => ({
      project_id: project, uuid: crypto.randomUUID(), event, distinct_id: `p${index}`, timestamp: text(at - lateMs), received_at: text(at), properties: '{}'
    })),
    clickhouse_settings: { insert_deduplication_token: crypto.randomUUID(), async_insert: 0 }
  })
}

async function completeThrough (hour: number): Promise<void> {
  await clickhouse.command({ query: "INSERT INTO watermark_reached SELECT 0, {through: DateTime64(3)}, tuple(now64(3), '')", query_params: { through: new Date(START + hour * HOUR) } })
}

const trend = { version: 1, kind: 'trend', range: { last: 7, unit: 'day', whole: false }, interval: 'day', series: [{ event: 'paid', measure: 'events' }] }
async function addQuestion (name: string, definition: object): Promise<number> {
  return (await sql<[{ id: number }]>`INSERT INTO questions ${sql({ project_id: project, name, definition: sql.json(definition) })} RETURNING id`)[0].id
}
async function addAlert (
  name: string, about: object, { condition, every = 'hour' }: { condition: object | null, every?: string }
): Promise<number> {
  const row = {
    project_id: project, name, about: sql.json(about), every,
    condition: condition === null ? null : sql.json(condition),
    targets: sql.json([target]),
    may_run_sql: true, updated_at: new Date(START)
  }
  return (await sql<[{ id: number }]>`INSERT INTO alerts ${sql(row)} RETURNING id`)[0].id
}
const windowsOf = async (alert: number): Promise<Record<string, unknown>[]> =>
  await sql`SELECT extract(epoch FROM window_from - ${new Date(START)})::integer / 3600 AS hour, value, before, outcome FROM alert_windows WHERE alert_id = ${alert} ORDER BY window_from`
const notifications = async (): Promise<{ type: string, data: string, text: string }[]> => await sql`SELECT type, data, text FROM notifications ORDER BY sequence`

const windows = startWindows({ sql, clickhouse, owner: 'test', kinds: [{ list: async () => await listAlertTasks({ sql, analyst, publicUrl: 'http://millrace.example' }), limit: 4 }], roundMs: 50, logger })
t.teardown(async () => await windows.stop())

t.test('an alert on a question fires once and is resolved once, and counts what was received', async (t) => {
  const question = await addQuestion('Payments', trend)
  await insert(0, 5)
  await insert(1, 2)
  // Happened in the first hour; and from an import of years.
  await insert(1, 2, { lateMs: HOUR })
  await insert(2, 1)
  await insert(2, 50, { lateMs: 400 * 24 * HOUR })
  await insert(4, 9)
  const alert = await addAlert('Few payments', { kind: 'question', id: question }, { condition: { is: 'below', value: 4 } })
  await completeThrough(4.99)
  await waitFor(async () => (await windowsOf(alert)).length === 4)
  await insert(4, 3)
  await completeThrough(5)
  await waitFor(async () => (await windowsOf(alert)).length === 5)

  t.same(await windowsOf(alert), [
    { hour: 0, value: 5, before: null, outcome: null }, { hour: 1, value: 4, before: null, outcome: null },
    { hour: 2, value: 1, before: null, outcome: 'fired' }, { hour: 3, value: 0, before: null, outcome: null },
    { hour: 4, value: 12, before: null, outcome: 'resolved' }
  ])
  const sent = await notifications()
  t.same(sent.map(({ type }) => type), ['alert.fired', 'alert.resolved'])
  t.equal(sent[0]?.text, `Alert: Few payments\nvalue 1 (fires when it is below 4)\nreceived from 2026-05-11T02:00:00.000Z to 2026-05-11T03:00:00.000Z\nhttp://millrace.example/console/projects/${project}/questions/${question}`)
  t.match(JSON.parse(sent[1]!.data), { value: 12, window: { from: '2026-05-11T04:00:00.000Z' }, alert: { id: alert, name: 'Few payments' } })
  await sql`DELETE FROM alerts`
})

t.test('a change is that against the same window a week before', async (t) => {
  const question = await addQuestion('People', { ...trend, series: [{ event: 'seen', measure: 'people' }] })
  await insert(-168, 10, { event: 'seen' })
  await insert(-167, 10, { event: 'seen' })
  await insert(0, 14, { event: 'seen' })
  await insert(1, 15, { event: 'seen' })
  const alert = await addAlert('More people', { kind: 'question', id: question }, { condition: { is: 'rises_by', value: 50 } })
  await waitFor(async () => (await windowsOf(alert)).length === 5)
  t.match(await windowsOf(alert), [{ value: 14, before: 10, outcome: null }, { value: 15, before: 10, outcome: 'fired' }, { value: 0, before: 0, outcome: null }, {}, {}])
  await sql`DELETE FROM alerts`
})

t.test('a saved query gets its window; one that was changed since is not run', async (t) => {
  const [{ id: query }] = await sql<[{ id: number }]>`
    INSERT INTO saved_queries (project_id, name, query, updated_at) VALUES (${project}, 'Count',
      'SELECT count() FROM events WHERE event = ''paid'' AND received_at >= {from:DateTime} AND received_at < {to:DateTime}; ', ${new Date(START)}) RETURNING id`
  const alert = await addAlert('Query', { kind: 'saved_query', id: query }, { condition: { is: 'above', value: 10 } })
  await waitFor(async () => (await windowsOf(alert)).length === 5)
  t.match((await windowsOf(alert)).map(({ value }) => value), [5, 4, 51, 0, 12])
  const [{ id: maker }] = await sql<[{ id: number }]>`INSERT INTO users (email, has_roles) VALUES ('maker@example.com', true) RETURNING id`
  const mayRun = async (change: Promise<unknown>): Promise<unknown> => {
    await change
    const tasks = await sql<{ id: number }[]>`UPDATE alerts SET made_by_users = ${[maker]} WHERE id = ${alert} RETURNING id`
    return [tasks.length, await (await listAlertTasks({ sql, analyst, publicUrl: '' }))[0]?.run?.({ from: new Date(START), to: new Date(START + HOUR) }, new AbortController().signal).then(() => true, () => false)]
  }
  t.same(await mayRun(sql`INSERT INTO memberships (user_id, project_id, role) VALUES (${maker}, NULL, 'editor')`), [1, true])
  t.same(await mayRun(sql`UPDATE memberships SET project_id = ${project}`), [1, false], 'with a role in one project only')
  t.same(await mayRun(sql`UPDATE memberships SET project_id = NULL`), [1, true])
  t.same(await mayRun(sql`UPDATE users SET disabled_at = now()`), [1, false], 'disabled since')
  await sql`UPDATE users SET disabled_at = NULL`
  await sql`UPDATE saved_queries SET query = 'SELECT 1', updated_at = now()`
  await completeThrough(6)
  await waitFor(async () => (await sql`SELECT error FROM window_tasks WHERE subject = ${`alert:${alert}`} AND error LIKE '%save the alert again%'`).length === 1)
  t.equal((await windowsOf(alert)).length, 5)
  await sql`DELETE FROM alerts`
  await sql`UPDATE saved_queries SET query = 'SELECT ''many''', updated_at = ${new Date(START)}`
  const textual = await addAlert('Text', { kind: 'saved_query', id: query }, { condition: { is: 'above', value: 10 } })
  await waitFor(async () => (await sql`SELECT error FROM window_tasks WHERE subject = ${`alert:${textual}`} AND error LIKE '%must be a number%'`).length === 1)
  t.same(await windowsOf(textual), [], 'never that it did not fire')
  await sql`DELETE FROM alerts`
})

t.test('an answer that would take the memory of all is refused', async (t) => {
  const [{ id }] = await sql<[{ id: number }]>`
    INSERT INTO saved_queries ${sql({ project_id: project, name: 'Long', query: "SELECT groupArray(repeat('a', 1000000)) FROM numbers(50)", updated_at: new Date(START) })} RETURNING id`
  await t.rejects(readReport({ sql, analyst }, { kind: 'saved_query', id }, { project, mayRunSql: true, updatedAt: new Date() }, START), { code: '396' })
})

t.test('a board is sent each day, and what cannot be answered keeps the rest back not', async (t) => {
  const question = await addQuestion('Payments of the week', trend)
  const retention = await addQuestion('Coming back', {
    version: 1, kind: 'retention', range: { last: 11, unit: 'month', whole: false }, interval: 'month', start: { event: 'paid' }
  })
  const [{ id: query }] = await sql<[{ id: number }]>`
    INSERT INTO saved_queries ${sql({ project_id: project, name: 'By hour', query: "SELECT toStartOfHour(received_at) AS hour, count() AS n FROM events WHERE event = 'paid' GROUP BY hour ORDER BY hour", chart: sql.json({ kind: 'bar' }), updated_at: new Date(START) })} RETURNING id`
  const [{ id: board }] = await sql<[{ id: number }]>`
    INSERT INTO boards ${sql({ project_id: project, name: 'Sales', tiles: sql.json([{ kind: 'question', id: question }, { kind: 'question', id: 999_999 }, { kind: 'question', id: retention }, { kind: 'saved_query', id: query }]) })} RETURNING id`
  // Without that of years ago, nothing was seen before the last month but one.
  await clickhouse.command({ query: "ALTER TABLE event_volumes_by_day UPDATE first_seen = '2026-04-20 00:00:00' WHERE first_seen < '2026-04-20' SETTINGS mutations_sync = 1" })
  const report = await addAlert('Daily sales', { kind: 'board', id: board }, { condition: null, every: 'day' })
  await completeThrough(24)
  await waitFor(async () => (await windowsOf(report)).length === 1)
  const last = (await notifications()).at(-1)
  t.equal(last?.type, 'report')
  t.match(last?.text, /^Daily sales: Sales, complete through 2026-05-12T00:00:00.000Z\n\nPayments of the week\npaid: 22, 2026-05-11: 22\n\nquestion \d+: the project has no question 999999\n\nComing back\n2025-07-01: –, returned [^]*2026-03-01: –, returned .*\n2026-04-01: 0, returned 0\n2026-05-01: \d+, returned –\n\nBy hour\n2026-05-11 00:00:00 \| 5\n[^]*\n\nhttp:\/\/millrace.example\/console\/projects\/\d+\/boards\/\d+$/)

  const { content } = await readReport({ sql, analyst }, { kind: 'question', id: question }, { project, mayRunSql: true, updatedAt: new Date() }, START + 24 * HOUR)
  t.match(content, { kind: 'chart', looks: [{ partial: Array(7).fill(false) }] }, 'the day that has just ended is complete')
  const { pictures } = JSON.parse(last!.data)
  t.match(pictures, [/^http:\/\/millrace\.example\/api\/shared_board\/pictures\/phl_\w{43}$/, null, /./, /./])
  for (const picture of [pictures[0], pictures[2], pictures[3]]) {
    const { width, height, different } = readPng(await createReadPicture(sql)(picture.split('/').at(-1)) ?? Buffer.alloc(0))
    t.equal(width, 800)
    t.ok(height > 100 && height < 800, `${height}`)
    t.ok(different > 50, `${different}`)
  }
  t.same(await sql`SELECT shows_sql FROM report_pictures ORDER BY shows_sql`, [{ shows_sql: false }, { shows_sql: false }, { shows_sql: true }])
  await sql`UPDATE report_pictures SET created_at = now() - interval '31 days'`
  await completeThrough(48)
  await waitFor(async () => (await windowsOf(report)).length === 2)
  t.equal((await sql`SELECT FROM report_pictures`).length, 3, 'those of a month ago are gone')
})
