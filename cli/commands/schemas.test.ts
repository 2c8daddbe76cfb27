import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { type Captured, startApi } from '../testing/run-captured.ts'

t.test('stores versions, shows, activates and disables them', async (t) => {
  const { sql, run: runCommand } = await startApi(t)
  const run = async (...line: string[]): Promise<Captured> => await runCommand('schemas', ...line)
  const file = path.join(t.testdir(), 'schema.json')
  const put = async (schema: unknown, ...options: string[]): Promise<Captured> => {
    await writeFile(file, typeof schema === 'string' ? schema : JSON.stringify(schema))
    return await run('put', 'order paid', file, '--json', ...options)
  }

  t.match(JSON.parse((await put({ required: ['plan'] }, '--mode', 'quarantine', '--owner', 'shop')).out), {
    event: 'order paid', mode: 'quarantine', version: 1, active_version: null, owner: 'shop'
  })
  t.match(JSON.parse((await put({ required: ['plan', 'seats'] })).out), { mode: 'quarantine', version: 2, active_version: null })
  t.match((await run('activate', 'order paid')).out, /active_version +2\n/)
  t.match((await run('activate', 'order paid', '--schema-version', '1', '--mode', 'observe')).out, /active_version +1\n/)
  t.match((await run('list')).out, /order paid +observe +2 +1 +shop/)
  t.same(JSON.parse((await run('show', 'order paid')).out), { required: ['plan', 'seats'] })
  t.same(JSON.parse((await run('show', 'order paid', '--schema-version', '1')).out), { required: ['plan'] })
  t.match((await run('disable', 'order paid')).out, /active_version +-\n/)
  t.match(await put({ required: ['seats'] }, '--based-on', '1'), { code: 1, err: /has version 2, .*your change is based on version 1/ })
  t.match(JSON.parse((await put({ required: ['seats'] }, '--based-on', '2')).out), { version: 3 })
  await sql`UPDATE event_schemas SET deleted = true`
  t.match(JSON.parse((await put('\uFEFF{}')).out), { version: 4 }, 'with the mark of its encoding')
  t.same(JSON.parse((await run('show', 'order paid', '--schema-version', '3')).out), { required: ['seats'] }, 'of the deleted one')

  for (const [captured, why] of [
    [await put('{'), /cannot read a JSON Schema/],
    [await put({ properties: { plan: { pattern: '(' } } }), /schema\.properties\.plan\.pattern: .*RE2/],
    [await run('put', 'e', 'no-such-file.json'), /cannot read a JSON Schema/],
    [await run('show', 'unknown'), /no schema of the event unknown/],
    [await run('activate', 'unknown'), /no schema of the event unknown/],
    [await run('disable', 'unknown'), /no schema of the event unknown/],
    [await run('show', 'order paid', '--schema-version', '9'), /no version 9/],
    [await run('activate', 'order paid', '--schema-version', '9'), /newest version is 4/],
    [await run('activate', 'order paid', '--schema-version', '3'), /before 4 are those of a deleted schema/],
    [await run('put', 'e', file, '--mode', 'warn'), /Allowed choices are observe, quarantine, reject/]
  ] as const) {
    t.not(captured.code, 0)
    t.match(captured.err, why)
  }
})

t.test('says what a schema would have done with stored events', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const api = await startApi(t, { clickhouse: clickhouse.client })
  const timestamp = new Date(Date.now() - 60_000).toISOString().slice(0, 23)
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [{ plan: 'gold' }, { plan: 'pro' }, {}].map((properties) => ({
      project_id: 1, uuid: randomUUID(), event: 'paid', distinct_id: 'd', timestamp, lib: 'ios', lib_version: '1', properties: JSON.stringify(properties)
    }))
  })
  const run = async (...line: string[]): Promise<Captured> => await api.run('schemas', ...line)
  const file = path.join(t.testdir(), 'draft.json')
  await writeFile(file, '{"properties":{"plan":{"enum":["free","pro"]}}}')
  await run('put', 'paid', file)
  await writeFile(file, '{"required":["plan"]}')

  const { code, out } = await run('check', 'paid')

  t.equal(code, 0)
  t.match(out, /^events +3\nmet +2\nfailed +1\ncomplete +true\n/)
  t.match(out, /\/plan +enum +1 +"gold"/)
  t.match(out, /ios 1 +3 +1\n/)
  t.match(JSON.parse((await run('check', 'paid', '--file', file, '--json')).out), { events: 3, failed: 1, failures: [{ keyword: 'required' }] })
  t.match(JSON.parse((await run('infer', 'paid')).out), { properties: { plan: { type: 'string' } } })
  t.match(JSON.parse((await run('infer', 'paid', '--include-sdk', '--json')).out), { events: 3, stored: 3 })
  t.match(await run('infer', 'unknown'), { code: 1, err: /no event unknown/ })
  t.match(await run('infer', 'paid', '--output', path.join(file, 'x')), { code: 1 })
  t.match(await run('check', 'unknown'), { code: 1, err: /no schema of the event unknown/ })
  t.match(await run('check', 'paid', '--days', '400'), { code: 2 })
})
