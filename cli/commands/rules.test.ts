import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { type Captured, startApi } from '../testing/run-captured.ts'

t.test('stores versions, shows, activates and disables them', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const api = await startApi(t, { clickhouse: clickhouse.client })
  const run = async (...line: string[]): Promise<Captured> => await api.run('rules', ...line)
  const file = path.join(t.testdir(), 'rule.json')
  const put = async (rule: unknown, ...options: string[]): Promise<Captured> => {
    await writeFile(file, typeof rule === 'string' ? rule : JSON.stringify(rule))
    return await run('put', 'no visits', file, '--json', ...options)
  }
  const visits = { condition: { type: 'event', value: 'visit' }, actions: [{ type: 'drop' }] }

  t.match(JSON.parse((await put(visits, '--position', '5')).out), { name: 'no visits', position: 5, version: 1, active_version: null })
  t.match(JSON.parse((await put({ actions: [{ type: 'truncate_ip' }] })).out), { position: 5, version: 2 })
  t.match((await run('activate', 'no visits')).out, /active_version +2\n/)
  t.match((await run('activate', 'no visits', '--rule-version', '1')).out, /active_version +1\n/)
  t.match((await run('list')).out, /no visits +5 +2 +1 +0 +0 +0/)
  t.same(JSON.parse((await run('show', 'no visits')).out), { condition: null, actions: [{ type: 'truncate_ip' }], tests: [] })
  t.match(JSON.parse((await run('show', 'no visits', '--rule-version', '1')).out), visits)
  t.match(JSON.parse((await run('check', 'no visits', '--json')).out), { events: 0, matched: 0, complete: true })
  t.match((await run('disable', 'no visits')).out, /active_version +-\n/)

  for (const [captured, why] of [
    [await put('{'), /cannot read a rule/],
    [await put('[]'), /has no actions/],
    [await put({ ...visits, name: 'x' }), /has the field name/],
    [await put({ actions: [{ type: 'sample', rate: 2 }] }), /actions\.0\.rate: A share/],
    [await put({ ...visits, tests: [{ event: { event: 'paid' }, matches: true }] }), /tests\.0\.matches: The rule does nothing/],
    [await run('check', 'no visits', '--file', 'no-such-file.json'), /cannot read a rule/],
    [await run('show', 'unknown'), /no rule unknown/],
    [await run('activate', 'unknown'), /no rule unknown/],
    [await run('disable', 'unknown'), /no rule unknown/],
    [await run('show', 'no visits', '--rule-version', '9'), /no version 9/],
    [await run('activate', 'no visits', '--rule-version', '9'), /active_version: The newest version is 2/],
    [await put(visits, '--based-on', '1'), /version: The rule has version 2, .*your change is based on version 1/]
  ] as const) {
    t.not(captured.code, 0)
    t.match(captured.err, why)
  }
  t.match(await run('check', 'no visits', '--days', '400'), { code: 2 })
})

t.test('says what a rule would have done with stored events, and how many were looked into', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const api = await startApi(t, { clickhouse: clickhouse.client })
  const timestamp = new Date(Date.now() - 60_000).toISOString().slice(0, 23)
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: ['visit', 'visit', 'paid'].map((event) => ({
      project_id: 1, uuid: randomUUID(), event, distinct_id: 'd', timestamp, lib: 'web', lib_version: '1', properties: '{}'
    }))
  })
  const run = async (...line: string[]): Promise<Captured> => await api.run('rules', ...line)
  const file = path.join(t.testdir(), 'rule.json')
  await writeFile(file, JSON.stringify({ condition: { type: 'event', value: 'visit' }, actions: [{ type: 'drop' }] }))
  await run('put', 'no visits', file)

  const { code, out } = await run('check', 'no visits')

  t.equal(code, 0)
  t.match(out, /^events +2\nmatched +2\ndropped +2\n/)
  t.match(out, /web 1 +2 +2\n/)
  t.match(await run('check', 'no visits', '--limit', '1', '--json'), { out: /"complete": false/ })
  t.match(await run('check', 'no visits', '--file', file, '--project', '2'), { code: 1 })
})
