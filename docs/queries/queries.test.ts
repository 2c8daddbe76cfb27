import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { createClient } from '@clickhouse/client'
import t from 'tap'
import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createTestClickHouse } from '../../test/support/create-test-clickhouse.ts'

const FOLDER = import.meta.dirname

/** Two people with two sessions; `ann-phone` was merged into `ann`. */
const EVENTS = [
  ['ann', '$pageview', '2026-03-01 10:00:00', '/', 's1'],
  ['ann', 'cart opened', '2026-03-01 10:01:00', '/cart', 's1'],
  ['ann', '$pageview', '2026-03-01 10:02:00', '/cart', 's1'],
  ['ann-phone', '$pageview', '2026-03-02 09:00:00', '/', 's2'],
  ['ann', 'order paid', '2026-03-01 10:05:00', '/pay', 's1'],
  ['bob', '$pageview', '2026-03-02 12:00:00', '/', 's3'],
  ['bob', 'cart opened', '2026-03-02 12:30:00', '/cart', 's3']
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
    feature_flag: '', feature_flag_response: ''
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
      properties: '{"industry":"toys"}', created_at: '2026-03-01 00:00:00', version: 1, is_deleted: 0
    }]
  })
  return ids
}

/** Every query with its parameters and what it answers about the known events. */
function expectedAnswers (ids: Record<string, string>): [string, Record<string, unknown>, unknown[][]][] {
  const span = { from: '2026-03-01 00:00:00', to: '2026-03-04 00:00:00' }
  return [
    ['trend', { event: '$pageview', ...span }, [['2026-03-01', 2, 1], ['2026-03-02', 2, 2], ['2026-03-03', 0, 0]]],
    ['funnel', { first: '$pageview', second: 'cart opened', third: 'order paid' }, [[2, 1], [3, 1]]],
    ['retention', {}, [
      ['2026-03-01', 0, 1], ['2026-03-01', 1, 1], ['2026-03-01', 2, 1], ['2026-03-02', 0, 1], ['2026-03-02', 1, 1]]],
    ['paths', {}, [['/', '/cart', 1]]],
    ['sessions', {}, [
      ['s1', '2026-03-01 10:00:00.000', 300, '/', 4],
      ['s2', '2026-03-02 09:00:00.000', 0, '/', 1],
      ['s3', '2026-03-02 12:00:00.000', 1800, '/', 2]]],
    ['persons', { property: 'plan' }, [[ids.ann, 'gold', 7, ['ann', 'ann-phone']], [ids.bob, '', 3, ['bob']]]],
    ['groups', { group_type: 'company', property: 'industry' }, [['acme', 'toys', 2, 1]]],
    ['experiment_exposure', { flag: 'new-pay' }, [['control', 1], ['several', 1]]],
    ['property_breakdown', { event: '$pageview', property: 'plan' }, [['pro', 3], ['free', 1]]],
    ['definition_usage', {}, [
      ['$pageview', 4, '2026-03-02 12:00:00.000', ['plan:String']],
      ['$feature_flag_called', 3, '2026-03-03 00:00:02.000', ['plan:String']],
      ['cart opened', 2, '2026-03-02 12:30:00.000', ['plan:String']],
      ['order paid', 1, '2026-03-01 10:05:00.000', ['plan:String']]]]
  ]
}

async function ask (client: ClickHouse, name: string, params: Record<string, unknown>): Promise<unknown[][]> {
  const query = await readFile(path.join(FOLDER, `${name}.sql`), 'utf8')
  const result = await client.query({
    query, query_params: { project: 1, ...params }, format: 'JSONCompactEachRow',
    clickhouse_settings: { output_format_json_quote_64bit_integers: 0 }
  })
  return await result.json<unknown[]>()
}

t.test('every sample query answers what the known events say', async (t) => {
  const { client } = await createTestClickHouse(t)
  const expected = expectedAnswers(await fill(client))

  for (const [name, params, answer] of expected) t.same(await ask(client, name, params), answer, name)
  t.equal(expected.length, (await readdir(FOLDER)).filter((file) => file.endsWith('.sql')).length)
})

t.test('an analyst gets the same answers while duplicates are not merged away yet', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const analystUrl = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' })
  const analyst = createClient({ url: analystUrl.href })
  t.teardown(() => analyst.close())
  const expected = expectedAnswers(await fill(client))
  await client.command({ query: 'SYSTEM STOP MERGES events' })
  await client.command({ query: 'INSERT INTO events SELECT * REPLACE (inserted_at + 1 AS inserted_at) FROM events' })
  const copies = await client.query({ query: 'SELECT count() AS n FROM events', format: 'JSONEachRow' })
  t.match(await copies.json(), [{ n: /^20$/ }])

  // Volumes count what the writer let through, and it lets no copies through.
  for (const [name, params, answer] of expected.filter(([name]) => name !== 'definition_usage')) {
    t.same(await ask(analyst, name, params), answer, name)
  }
})

t.test('every sample query is listed in the README', async (t) => {
  const readme = await readFile(path.join(FOLDER, 'README.md'), 'utf8')
  for (const file of (await readdir(FOLDER)).filter((name) => name.endsWith('.sql'))) {
    t.match(readme, `](${file})`, file)
  }
})
