import { globSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { createClient } from '@clickhouse/client'
import t from 'tap'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { refreshEventsWithPerson } from '../../../schema/migrate/refresh-events-with-person.ts'
import { createTestClickHouse, stopMerges } from '../../../test/support/test-stores.ts'

const FOLDER = import.meta.dirname
const ROOT = path.join(FOLDER, '..', '..', '..')

/**
 * Three people; `ann-phone` was merged into `ann`. In Berlin `cid` came on 2 March, and what `bob` did in February is
 * before the range.
 */
const EVENTS = [
  ['ann', '$pageview', '2026-03-01 10:00:00', '/', 's1'],
  ['ann', 'cart opened', '2026-03-01 10:01:00', '/cart', 's1'],
  ['ann', '$pageview', '2026-03-01 10:02:00', '/cart', 's1'],
  ['ann-phone', '$pageview', '2026-03-02 09:00:00', '/', 's2'],
  ['ann', 'order paid', '2026-03-01 10:05:00', '/pay', 's1'],
  ['bob', '$pageview', '2026-03-02 12:00:00', '/', 's3'],
  ['bob', 'cart opened', '2026-03-02 12:30:00', '/cart', 's3'],
  ['cid', '$pageview', '2026-03-01 23:30:00', '/late', 's4'],
  ['bob', '$pageview', '2026-02-20 12:00:00', '/old', 's0']
] as const

/** `person_id` of a distinct id as ClickHouse computes it. */
async function personIds (client: ClickHouse): Promise<Record<string, string>> {
  const result = await client.query({ query: 'SELECT distinct_id, any(person_id) AS id FROM events GROUP BY 1', format: 'JSONEachRow' })
  const rows = await result.json<{ distinct_id: string, id: string }>()
  return Object.fromEntries(rows.map((row) => [row.distinct_id, row.id]))
}

async function fill (client: ClickHouse): Promise<Record<string, string>> {
  const rows = EVENTS.map(([distinctId, event, timestamp, pathname, session]) => ({
    project_id: 1, uuid: crypto.randomUUID(), event, distinct_id: distinctId, timestamp, received_at: timestamp,
    pathname, session_id: session, groups: distinctId === 'bob' ? { company: 'acme' } : {},
    properties: JSON.stringify({ plan: distinctId === 'bob' ? 'free' : 'pro' }), property_types: 'eSplan',
    feature_flag: '', feature_flag_response: '', schema_version: event === 'order paid' ? -2 : 0,
    // The one event of somebody in a sample of a quarter.
    sample_weight: event === '$pageview' && session === 's3' ? 4 : 1
  }))
  const calls = [['ann', 'test'], ['ann', 'control'], ['bob', 'control']].map(([distinctId, variant], index) => ({
    ...rows[0], uuid: crypto.randomUUID(), event: '$feature_flag_called', distinct_id: distinctId,
    timestamp: `2026-03-03 00:00:0${index}`, session_id: '', feature_flag: 'new-pay', feature_flag_response: variant
  }))
  await client.insert({ table: 'events', values: [...rows, ...calls], format: 'JSONEachRow' })
  const ids = await personIds(client)
  await client.insert({
    table: 'person_overrides', format: 'JSONEachRow',
    values: [{ project_id: 1, old_person_id: ids['ann-phone'], person_id: ids.ann, version: 1, is_deleted: 0 }]
  })
  await client.insert({
    table: 'persons', format: 'JSONEachRow',
    values: [{
      project_id: 1, person_id: ids.ann, properties: '{"plan":"gold"}', is_identified: true,
      created_at: '2026-03-01 00:00:00', version: 1, is_deleted: 0
    }]
  })
  await client.insert({
    table: 'groups', format: 'JSONEachRow',
    values: [{
      project_id: 1, group_type: 'company', group_key: 'acme', group_type_index: 0,
      properties: '{"industry":"toys","name":"Acme"}', created_at: '2026-03-01 00:00:00', version: 1, is_deleted: 0
    }]
  })
  // Later than the days after which a warning is forgotten.
  const warning = { project_id: 1, minute: '2100-01-01 00:00:00', reason: 'too_large', effect: 'dropped', samples: [] }
  await client.insert({
    table: 'ingestion_warnings_by_source', format: 'JSONEachRow',
    values: [
      { ...warning, source: 'first', count: 3 }, { ...warning, source: 'first', count: 5 }, { ...warning, source: 'second', count: 2 },
      { ...warning, source: 'first', project_id: 2, count: 1 }
    ]
  })
  await client.insert({
    table: 'ledger_by_source', format: 'JSONEachRow',
    values: [3, 5].map((accepted) => ({
      project_id: 1, minute: '2026-03-02 23:30:00', source: 'live.0', accepted, replayed: 0, duplicates: 1, dead_lettered: 1,
      deletions_begun: 0, deletions_done: 0
    }))
  })
  await client.insert({
    table: 'watermark_reached', format: 'JSONEachRow',
    values: ['2026-03-02 23:59:58.500', '2026-03-02 23:59:59'].map((moment) => ({
      // In the future: what was written long ago says nothing of what it waits for.
      id: 0, complete_through: moment, state: { updated_at: '2100-01-01', held_by: 'spool of host-1' }
    }))
  })
  return ids
}

/** Every query with its parameters and what it answers about the known events. */
function expectedAnswers (ids: Record<string, string>): [string, Record<string, unknown>, unknown[][]][] {
  return [
    ['trend', { event: '$pageview' }, [['2026-03-01', 2, 1], ['2026-03-02', 6, 3], ['2026-03-03', 0, 0]]],
    ['funnel', { first: '$pageview', second: 'cart opened', third: 'order paid' },
      [[1, '$pageview', 3], [2, 'cart opened', 2], [3, 'order paid', 1]]],
    // bob was first seen in February.
    ['retention', {}, [['2026-03-01', 0, 1], ['2026-03-01', 1, 1], ['2026-03-01', 2, 1], ['2026-03-02', 0, 1]]],
    ['paths', {}, [['/', '/cart', 1]]],
    ['sessions', {}, [
      ['s1', '2026-03-01 11:00:00.000', 300, '/', 4],
      ['s4', '2026-03-02 00:30:00.000', 0, '/late', 1],
      ['s2', '2026-03-02 10:00:00.000', 0, '/', 1],
      ['s3', '2026-03-02 13:00:00.000', 1800, '/', 2]]],
    ['persons', { property: 'plan' }, [
      [ids.ann, 'gold', 7, ['ann', 'ann-phone']], [ids.bob, '', 3, ['bob']], [ids.cid, '', 1, ['cid']]]],
    ['groups', { group_type: 'company', property: 'industry' }, [['acme', 'toys', 5, 1]]],
    ['experiment_exposure', { flag: 'new-pay' }, [['control', 1], ['several', 1]]],
    ['property_breakdown', { event: '$pageview', property: 'plan' }, [['free', 4], ['pro', 4]]],
    ['definition_usage', {}, [
      ['$pageview', 6, '2026-03-02 12:00:00.000', ['plan:String']],
      ['$feature_flag_called', 3, '2026-03-03 00:00:02.000', ['plan:String']],
      ['cart opened', 2, '2026-03-02 12:30:00.000', ['plan:String']],
      ['order paid', 1, '2026-03-01 10:05:00.000', ['plan:String']]]]
  ]
}

const RANGE = { from: '2026-03-01', to: '2026-03-04', timezone: 'Europe/Berlin' }

async function ask (client: ClickHouse, name: string, params: Record<string, unknown>): Promise<unknown[][]> {
  const query = await readFile(path.join(FOLDER, `${name}.sql`), 'utf8')
  const used = Object.entries({ ...RANGE, ...params }).filter(([param]) => query.includes(`{${param}:`))
  return await select(client, query, { project: 1, ...Object.fromEntries(used) })
}

async function select (client: ClickHouse, query: string, params: Record<string, unknown> = {}): Promise<unknown[][]> {
  const result = await client.query({
    query, query_params: params, format: 'JSONCompactEachRow', clickhouse_settings: { output_format_json_quote_64bit_integers: 0 }
  })
  return await result.json<unknown[]>()
}

/**
 * The statements that set up a database of one's own are tried with its installation, those about exported files with
 * DuckDB and files.
 */
const isQuery = (text: string): boolean => /^(--.*\n)*(SELECT|WITH)\b/.test(text) && !text.includes('.parquet')

/** Queries that pages show: blocks of SQL, and what the README sends with curl. */
async function readShownQueries (): Promise<string[]> {
  const pages = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })].filter((page) => !page.includes('decisions'))
  const texts = await Promise.all(pages.map(async (page) => await readFile(path.join(ROOT, page), 'utf8')))
  return texts.flatMap((text) => [
    ...[...text.matchAll(/^```sql\n(.*?)^```/gms)].map(([, query]) => query!).filter(isQuery),
    ...[...text.matchAll(/ -d (['"])(SELECT .*?)\1/g)].map(([, , query]) => query!)
  ])
}

/** The statements about promoted properties: add, fill and drop a column. */
async function readPromotion (): Promise<string[]> {
  const page = await readFile(path.join(ROOT, 'docs', 'query', 'bi-tools.md'), 'utf8')
  return [...page.matchAll(/^(ALTER TABLE .*?);/gm)].map(([, statement]) => statement!)
}

/** What each of them answers about the known events, by a text that only it has; times are relative to 3 March. */
function answersOfPages (ids: Record<string, string>): [string, unknown[][]][] {
  return [
    ['volume, last_seen FROM event_volumes', [
      ['$feature_flag_called', 3, '2026-03-03 00:00:02.000'], ['$pageview', 6, '2026-03-02 12:00:00.000'],
      ['cart opened', 2, '2026-03-02 12:30:00.000'], ['order paid', 1, '2026-03-01 10:05:00.000']]],
    ["'plan') AS plan, uniqExact", [['', 2, 2], ['gold', 1, 3]]],
    ['override.version', [[ids.ann, 7], [ids.bob, 4], [ids.cid, 1]]],
    ["'name') AS company", [['', 9], ['Acme', 3]]],
    ['p_plan, count()', [['free', 3], ['pro', 9]]],
    ['max(timestamp) AS last_called', [['new-pay', '2026-03-03 00:00:02.000', 3]]],
    ['log_comment LIKE', []],
    ['system.detached_parts', []],
    ['FROM ingestion_warnings', [['2100-01-01 00:00:00', 'too_large', 'dropped', 7, []]]],
    ['dead_lettered, deleted, balance FROM ledger', [['2026-03-02 23:30:00', 5, 1, 1, 0, 3], ['2100-01-01 00:00:00', 0, 0, 0, 0, 0]]],
    ['held_by FROM watermarks', [['2026-03-02 23:59:59.000', 'spool of host-1']]],
    ['max(complete_through) FROM watermarks', []],
    ['property, type, sum(count) AS events', [['plan', 'String', 1]]],
    ['schema_version < 0', [['', '', 1, 1]]],
    ['sum(sample_weight) AS events', [['$pageview', 9, 6], ['$feature_flag_called', 3, 3], ['cart opened', 2, 2], ['order paid', 1, 1]]]
  ]
}

t.test('every sample query answers what the known events say', async (t) => {
  const { client } = await createTestClickHouse(t)
  const expected = expectedAnswers(await fill(client))

  for (const [name, params, answer] of expected) t.same(await ask(client, name, params), answer, name)
  t.equal(expected.length, (await readdir(FOLDER)).filter((file) => file.endsWith('.sql')).length)
})

t.test('every query that a page shows answers what the known events say', async (t) => {
  const { client } = await createTestClickHouse(t)
  const expected = answersOfPages(await fill(client))
  const [add, materialize, drop] = await readPromotion()
  for (const query of [add!, materialize!]) await client.command({ query })
  await refreshEventsWithPerson(client, { topology: {} })
  const shown = await readShownQueries()
  t.equal(shown.length, expected.length)

  for (const [part, answer] of expected) {
    const query = shown.find((each) => each.includes(part)) ?? ''
    const rows = await select(client, query.replace('now()', "toDateTime('2026-03-03', 'UTC')").replace(/FORMAT \w+|;\s*$/, ''))
    const sorted = (all: unknown[][]): string[] => all.map((row) => JSON.stringify(row)).sort()
    t.same(sorted(rows), sorted(answer), part)
  }

  const inView = 'SELECT p_plan, count() FROM events_with_person GROUP BY p_plan ORDER BY p_plan'
  t.same(await select(client, inView), [['free', 3], ['pro', 9]], 'a migration shows the column in the view')
  await client.command({ query: drop! })
  await refreshEventsWithPerson(client, { topology: {} })
  t.equal((await select(client, 'SELECT * FROM events_with_person LIMIT 1')).length, 1)
})

t.test('merges are followed as the comment of events.person_id says, and no event is lost', async (t) => {
  const { client } = await createTestClickHouse(t)
  const ids = await fill(client)
  const [[comment]] = await select(client, `
    SELECT comment FROM system.columns WHERE database = currentDatabase() AND table = 'events' AND name = 'person_id'`) as [[string]]
  t.match(comment, /events_with_person, or by LEFT JOIN person_overrides FINAL on project_id and old_person_id/)

  const joined = await select(client, `
    SELECT if(o.version > 0, o.person_id, e.person_id) AS person, count() FROM events AS e
    LEFT JOIN (SELECT * FROM person_overrides FINAL) AS o ON o.project_id = e.project_id AND o.old_person_id = e.person_id
    GROUP BY person ORDER BY count() DESC`)

  t.same(joined, [[ids.ann, 7], [ids.bob, 4], [ids.cid, 1]])
  t.same(joined, await select(client, 'SELECT person_id, count() FROM events_with_person GROUP BY 1 ORDER BY 2 DESC'))
})

t.test('an analyst gets the same answers while duplicates are not merged away yet', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const analystUrl = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' })
  const analyst = createClient({ url: analystUrl.href })
  t.teardown(() => analyst.close())
  const expected = expectedAnswers(await fill(client))
  await stopMerges(t, client, ['events'])
  await client.command({ query: 'INSERT INTO events SELECT * REPLACE (inserted_at + 1 AS inserted_at) FROM events' })
  const copies = await client.query({ query: 'SELECT count() AS n FROM events', format: 'JSONEachRow' })
  t.match(await copies.json(), [{ n: /^24$/ }])

  // Volumes count what the writer let through, and it lets no copies through.
  for (const [name, params, answer] of expected.filter(([name]) => name !== 'definition_usage')) {
    t.same(await ask(analyst, name, params), answer, name)
  }
})

/** Events of one project more, and what a sample query says of them. */
async function askAbout (
  client: ClickHouse, events: Array<Record<string, unknown>>, [name, params]: [string, Record<string, unknown>]
): Promise<unknown[][]> {
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: events.map((event) => ({ project_id: 2, uuid: crypto.randomUUID(), received_at: event.timestamp, properties: '{}', ...event }))
  })
  return await ask(client, name, { project: 2, ...params })
}

t.test('a funnel with a repeated step needs two events, and takes two steps of one millisecond', async (t) => {
  const { client } = await createTestClickHouse(t)
  const event = (distinctId: string, name: string, timestamp: string): Record<string, unknown> =>
    ({ distinct_id: distinctId, event: name, timestamp })
  const events = [
    event('once', 'visit', '2026-03-01 10:00:00.000'), event('once', 'pay', '2026-03-01 11:00:00.000'),
    event('twice', 'visit', '2026-03-01 10:00:00.000'), event('twice', 'visit', '2026-03-01 10:01:00.000'), event('twice', 'pay', '2026-03-01 10:02:00.000'),
    event('at once', 'pay', '2026-03-01 10:00:00.007'), event('at once', 'visit', '2026-03-01 10:00:00.007'), event('at once', 'visit', '2026-03-01 10:00:00.007'),
    event('a day later', 'visit', '2026-03-01 10:00:00.000'), event('a day later', 'visit', '2026-03-02 10:00:00.000'), event('a day later', 'pay', '2026-03-02 10:00:00.001')
  ]

  const repeated = await askAbout(client, events, ['funnel', { first: 'visit', second: 'visit', third: 'pay' }])
  t.same(repeated, [[1, 'visit', 4], [2, 'visit', 3], [3, 'pay', 2]])
  t.same(await ask(client, 'funnel', { project: 2, first: 'pay', second: 'pay', third: 'pay' }), [[1, 'pay', 4], [2, 'pay', 0], [3, 'pay', 0]])
})

t.test('exposure to an experiment leaves out those with the flag off', async (t) => {
  const { client } = await createTestClickHouse(t)
  const events = [['off', 'false'], ['on', 'test'], ['on', 'false'], ['none', '']].map(([distinctId, response]) => ({
    distinct_id: distinctId, event: '$feature_flag_called', timestamp: '2026-03-03 00:00:00', feature_flag: 'new-pay', feature_flag_response: response
  }))

  t.same(await askAbout(client, events, ['experiment_exposure', { flag: 'new-pay' }]), [['test', 1]])
})

t.test('time zones and weeks are what the page for BI tools says', async (t) => {
  const { client } = await createTestClickHouse(t)
  // 1 March 2026 is a Sunday; in Berlin this is 00:30 on Monday.
  await askAbout(client, [{ distinct_id: 'd', event: 'e', timestamp: '2026-03-01 23:30:00' }], ['trend', { event: 'e' }])
  const within = async (query: string, zone?: string): Promise<unknown[]> => {
    const result = await client.query({ query, format: 'JSONCompactEachRow', clickhouse_settings: zone === undefined ? {} : { session_timezone: zone } })
    return (await result.json<unknown[]>())[0]!
  }
  const days = `SELECT toDate(timestamp), countIf(timestamp >= '2026-03-01 23:00:00'), countIf(timestamp >= toDateTime('2026-03-02 00:00:00'))
    FROM events WHERE project_id = 2 GROUP BY 1`

  t.same((await within(days)).map(String), ['2026-03-01', '1', '0'])
  t.same((await within(days, 'Europe/Berlin')).map(String), ['2026-03-01', '1', '1'], 'the filter moves, the day does not')
  t.same((await within(`SELECT toString(toStartOfDay(timestamp, 'Europe/Berlin')), timestamp >= toDateTime('2026-03-02 00:00:00', 'Europe/Berlin')
    FROM events WHERE project_id = 2`)).map(String), ['2026-03-02 00:00:00', '1'])
  t.same(await within(`SELECT toStartOfWeek(timestamp), toStartOfWeek(timestamp, 1), toMonday(timestamp), toDate(dateTrunc('week', timestamp)),
    toStartOfWeek(timestamp, 1, 'Europe/Berlin') FROM events WHERE project_id = 2`), ['2026-03-01', '2026-02-23', '2026-02-23', '2026-02-23', '2026-03-02'])
})

t.test('every sample query is listed in the README', async (t) => {
  const readme = await readFile(path.join(FOLDER, 'README.md'), 'utf8')
  for (const file of (await readdir(FOLDER)).filter((name) => name.endsWith('.sql'))) {
    t.match(readme, `](${file})`, file)
  }
})
