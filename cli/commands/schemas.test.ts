import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { type Captured, runCaptured } from '../testing/run-captured.ts'

t.test('stores versions, shows, activates and disables them', async (t) => {
  const { sql, url } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'Shop')`
  const run = async (...line: string[]): Promise<Captured> => await runCaptured(['schemas', ...line], { DATABASE_URL: url })
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

  for (const [captured, why] of [
    [await put('{'), /cannot read a JSON Schema/],
    [await put({ properties: { plan: { pattern: '(' } } }), /RE2/],
    [await run('put', 'e', 'no-such-file.json'), /cannot read a JSON Schema/],
    [await run('show', 'unknown'), /no schema of the event unknown/],
    [await run('activate', 'unknown'), /no schema of the event unknown/],
    [await run('disable', 'unknown'), /no schema of the event unknown/],
    [await run('show', 'order paid', '--schema-version', '9'), /no version 9/],
    [await run('activate', 'order paid', '--schema-version', '9'), /newest version is 2/],
    [await run('put', 'e', file, '--mode', 'warn'), /Allowed choices are observe, quarantine, reject/]
  ] as const) {
    t.not(captured.code, 0)
    t.match(captured.err, why)
  }
})
