import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { reviseExports } from '../../persons/deletion/revise-exports.ts'
import { createTestClickHouse, createTestPostgres } from '../../../test/support/test-stores.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { receiveRequests } from '../testing/receive-requests.ts'
import {
  askDuckDb, askLocalClickHouse, at, compareEvents, completeThrough, createExport, duckTable, insertEvents,
  readManifests, startExports
} from './testing/export-fixture.ts'

async function start (t: TestContext) {
  const [{ sql }, { client: clickhouse }, root] = await Promise.all([
    createTestPostgres(t), createTestClickHouse(t), mkdtemp(path.join(tmpdir(), 'millrace-exports-'))
  ])
  let running: ReturnType<typeof startExports> | undefined
  t.teardown(async () => {
    await running?.stop()
    await rm(root, { recursive: true })
  })
  const run = (options: { fileRows?: number } = {}): void => {
    running = startExports({ sql, clickhouse }, { folder: root, ...options })
  }
  const isDone = async (through: string): Promise<boolean> => {
    const [row] = await sql<[{ done: Date, planned: number }]>`
      SELECT min(done_through) AS done, (SELECT count(*)::int FROM export_windows WHERE written_at IS NULL)
        + (SELECT count(*)::int FROM export_erasures) AS planned FROM window_tasks`
    return row.done !== null && row.done.toISOString() >= `${at(through).replace(' ', 'T')}Z` && row.planned === 0
  }
  const waitUntilDone = async (through: string): Promise<unknown> => await waitFor(async () => await isDone(through))
  return { sql, clickhouse, root, run, waitUntilDone, stop: async () => await running?.stop() }
}

t.test('windows by arrival, each row in one: late events in a later window, empty windows, no second run', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql)
  const files = path.join(root, folder)
  await insertEvents(clickhouse, 5, () => ({ received_at: at('05:59') }))
  await insertEvents(clickhouse, 20, (index) => ({ received_at: at(index < 10 ? '06:00' : '06:59') }))
  // A day late by its own time.
  await insertEvents(clickhouse, 3, () => ({ received_at: at('08:00'), timestamp: '2026-05-03 06:10:00' }))
  await insertEvents(clickhouse, 4, () => ({ project_id: 2, received_at: at('06:30') }))
  run()
  await completeThrough(clickhouse, '08:59')
  await waitUntilDone('08:00')

  const [stored, exported] = await compareEvents(clickhouse, files, `received_at >= '${at('06:00')}' AND received_at < '${at('08:00')}'`)
  t.equal(stored.length, 20)
  t.same(exported, stored)
  await completeThrough(clickhouse, '09:00')
  await waitUntilDone('09:00')
  const manifests = await readManifests(files)
  t.same(manifests.map(({ file, rows, files }) => [file, rows, files.length]), [
    ['events/date=2026-05-04/hour=06/r0.manifest.json', 20, 1],
    ['events/date=2026-05-04/hour=07/r0.manifest.json', 0, 0],
    ['events/date=2026-05-04/hour=08/r0.manifest.json', 3, 1]
  ])
  t.same(await askDuckDb(`SELECT CAST(date AS VARCHAR) AS date, hour, CAST(count(*) AS INTEGER) AS rows FROM ${duckTable(files)} GROUP BY ALL ORDER BY hour`), [
    { date: '2026-05-04', hour: '06', rows: 20 }, { date: '2026-05-04', hour: '08', rows: 3 }
  ])
  // A run that is repeated, as after a restored Postgres: erasures find its persons again.
  const before = await readdir(files, { recursive: true })
  const persons = await sql`SELECT length(person_hashes) FROM export_windows ORDER BY id`
  await sql`UPDATE export_windows SET written_at = NULL, sequence = NULL, files = '[]', parts = NULL, person_hashes = ''`
  await waitUntilDone('09:00')
  t.same((await readdir(files, { recursive: true })).sort(), before.sort())
  t.same((await sql`SELECT sequence FROM export_windows ORDER BY id`).map(({ sequence }) => sequence), [1, 2, 3])
  t.same(await sql`SELECT length(person_hashes) FROM export_windows ORDER BY id`, persons)
})

t.test('an erased person leaves every window, a replayed event comes into its own; each is a revision', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql, { tables: ['events', 'persons', 'merges'] })
  const files = path.join(root, folder)
  for (const hour of ['06', '07', '08']) {
    await insertEvents(clickhouse, 14, (index) => ({ received_at: at(`${hour}:10`), ...hour === '07' && { distinct_id: `other-${index}` } }))
  }
  const [person] = await queryRows<{ id: string }>(clickhouse, "SELECT DISTINCT person_id AS id FROM events WHERE distinct_id = 'user-3'")
  run()
  await completeThrough(clickhouse, '09:00')
  await waitUntilDone('09:00')
  await clickhouse.command({ query: "ALTER TABLE events DELETE WHERE distinct_id = 'user-3' SETTINGS mutations_sync = 1" })
  await reviseExports(sql, 1, [person?.id ?? ''])
  await waitUntilDone('09:00')

  const compare = async (message: string): Promise<void> => {
    const [stored, exported] = await compareEvents(clickhouse, files)
    t.same(exported, stored, message)
    t.equal(new Set(exported.map((row) => row.slice(0, 36))).size, exported.length)
  }
  await compare('after the erasure')
  const events = async (): Promise<unknown[]> => (await readManifests(files)).filter(({ table }) => table === 'events')
    .map(({ file, sequence, rows, reason }) => [sequence, file.slice(28, 33), rows, reason])
  t.same(await events(), [
    [1, '06/r0', 14, 'schedule'], [2, '07/r0', 14, 'schedule'], [3, '08/r0', 14, 'schedule'],
    [4, '06/r1', 12, 'erasure'], [5, '08/r1', 12, 'erasure']
  ])

  await insertEvents(clickhouse, 1, () => ({ received_at: at('06:40') }))
  await completeThrough(clickhouse, '10:00')
  // Rows that came late are looked for after the windows.
  await waitFor(async () => (await events()).length === 7)
  await compare('after the replay')
  t.same((await events()).slice(5), [[6, '09/r0', 0, 'schedule'], [7, '06/r2', 13, 'late_rows']])
})

t.test('after a restore of Postgres the chain goes on behind the manifests that are there; two chains in one folder stop it', async (t) => {
  const { sql, clickhouse, root, run, stop, waitUntilDone } = await start(t)
  const files = path.join(root, (await createExport(sql)).folder)
  for (const hour of ['06', '07', '08']) await insertEvents(clickhouse, 14, () => ({ received_at: at(`${hour}:10`) }))
  const personOf = async (id: string): Promise<string> =>
    (await queryRows<{ id: string }>(clickhouse, `SELECT any(person_id) AS id FROM events WHERE distinct_id = '${id}'`))[0]?.id ?? ''
  const erase = async (id: string): Promise<void> => {
    const person = await personOf(id)
    await clickhouse.command({ query: `ALTER TABLE events DELETE WHERE distinct_id = '${id}' SETTINGS mutations_sync = 1` })
    await reviseExports(sql, 1, [person])
  }
  run()
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')
  await stop()
  await sql`CREATE TABLE saved AS SELECT * FROM export_windows`
  run()
  await completeThrough(clickhouse, '09:00')
  await waitUntilDone('09:00')
  await erase('user-3')
  await waitUntilDone('09:00')
  await stop()

  await sql`TRUNCATE export_windows`
  await sql`INSERT INTO export_windows OVERRIDING SYSTEM VALUE SELECT * FROM saved`
  await sql`UPDATE window_tasks SET done_through = ${`${at('07:00')}Z`}`
  // The first thing that is written is not the window that the next manifest is of.
  await erase('user-5')
  run()
  await waitUntilDone('09:00')
  await promisify(execFile)(process.execPath, ['cli/commands/verify-export.js', root])
  const [stored, exported] = await compareEvents(clickhouse, files)
  t.same(exported, stored)

  await stop()
  const foreign = path.join(files, 'events/date=2026-05-04/hour=05')
  await mkdir(foreign)
  await writeFile(path.join(foreign, 'r0.manifest.json'), JSON.stringify({
    table: 'events', window: { from: `${at('05:00').replace(' ', 'T')}Z`, to: `${at('06:00').replace(' ', 'T')}Z` }, revision: 0, sequence: 1
  }))
  await completeThrough(clickhouse, '10:00')
  run()
  await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error LIKE '%both have position 1 in the chain%Pause this export and make another one'`).length === 1)
})

t.test('in a folder that is not the one before, as of a disk that is not mounted, nothing is written until it is back', async (t) => {
  const { sql, clickhouse, root, run, stop, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql, { tables: ['events', 'persons'] })
  for (const hour of ['06', '07']) await insertEvents(clickhouse, 3, () => ({ received_at: at(`${hour}:10`) }))
  run()
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')
  await stop()
  const disk = `${root}-disk`
  await rename(root, disk)
  t.teardown(async () => await rm(disk, { recursive: true, force: true }))
  const waitForError = async (table: string, what: string): Promise<unknown> => await waitFor(async () => (await sql`
    SELECT FROM window_tasks WHERE error LIKE ${`the folder ${folder} is not the one that this export has written to: ${table}/date=2026-05-04/hour=06/r0.manifest.json is ${what}%`}`).length === 1)

  await mkdir(root)
  run()
  await completeThrough(clickhouse, '08:00')
  await waitForError('events', 'missing')
  t.same(await readdir(root), [])

  await cp(disk, root, { recursive: true })
  const manifest = path.join(root, folder, 'persons/date=2026-05-04/hour=06/r0.manifest.json')
  await writeFile(manifest, (await readFile(manifest, 'utf8')).replace('"sequence": 1', '"sequence": 2'))
  await sql`UPDATE window_tasks SET retry_at = now()`
  await waitForError('persons', 'another one')
  t.equal((await readManifests(path.join(root, folder))).length, 2)

  await rm(root, { recursive: true })
  await rename(disk, root)
  await sql`UPDATE window_tasks SET retry_at = now()`
  await waitUntilDone('08:00')
  await promisify(execFile)(process.execPath, ['cli/commands/verify-export.js', root])
  t.same(...await compareEvents(clickhouse, path.join(root, folder)))
})

t.test('the folder of a first export is never created, as its disk may not be mounted', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql)
  await insertEvents(clickhouse, 5, () => ({ received_at: at('06:10') }))
  await rm(root, { recursive: true })
  run()
  await completeThrough(clickhouse, '07:00')
  await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error LIKE ${`the folder ${root} does not exist%`}`).length === 1)
  await t.rejects(readdir(root), { code: 'ENOENT' })
  await mkdir(root)
  await sql`UPDATE window_tasks SET retry_at = now()`
  await waitUntilDone('07:00')
  t.same((await readManifests(path.join(root, folder))).map(({ rows }) => rows), [5])
})

t.test('targets that hang hold up no other export', async (t) => {
  const { sql, clickhouse, root, run } = await start(t)
  const hanging = await receiveRequests(t, () => {})
  for (let index = 0; index < 6; index++) {
    const target = { kind: 's3', endpoint: new URL(hanging.url).origin, region: 'us-east-1', bucket: 'lake', prefix: '', access_key_id: 'a', secret_access_key: 'b' }
    await createExport(sql, { name: `hanging-${index}`, target })
  }
  const { id, folder } = await createExport(sql)
  await insertEvents(clickhouse, 3, () => ({ received_at: at('06:10') }))
  run()
  await completeThrough(clickhouse, '07:00')
  await waitFor(async () => (await sql`SELECT FROM export_windows WHERE export_id = ${id} AND written_at IS NOT NULL`).length === 1)
  t.equal((await readManifests(path.join(root, folder))).length, 1)
  await waitFor(() => hanging.received.length === 6)
  await completeThrough(clickhouse, '08:00')
  await waitFor(async () => (await readManifests(path.join(root, folder))).length === 2)
})

t.test('many exports at the end of an hour take turns to read, and leave connections to events', async (t) => {
  const { sql, clickhouse, root } = await start(t)
  for (let index = 0; index < 10; index++) await createExport(sql, { name: `lake-${index}`, tables: ['events', 'merges'] })
  await insertEvents(clickhouse, 3, () => ({ received_at: at('06:10') }))
  await completeThrough(clickhouse, '07:00')
  const [atOnce, most] = [new Set<symbol>(), { exec: 0 }]
  const counted = new Proxy(clickhouse, {
    get (client, name) {
      const method: unknown = Reflect.get(client, name)
      if (name !== 'exec') return typeof method === 'function' ? method.bind(client) : method
      return async (query: Parameters<typeof client.exec>[0]) => {
        const one = Symbol('query')
        most.exec = Math.max(most.exec, atOnce.add(one).size)
        await setTimeout(20)
        return await client.exec(query).finally(() => atOnce.delete(one))
      }
    }
  })
  const running = startExports({ sql, clickhouse: counted }, { folder: root })
  t.teardown(async () => await running.stop())
  await waitFor(async () => (await sql`SELECT FROM export_windows WHERE written_at IS NOT NULL`).length === 20)
  t.equal(most.exec, 4)
})

t.test('an export that was made paused writes backfills, and its windows when it goes on; no replayed event is missing', async (t) => {
  const { sql, clickhouse, root, run } = await start(t)
  const { id, folder } = await createExport(sql)
  const files = path.join(root, folder)
  const plan = async (hour: string, fields: object): Promise<unknown> => await sql`INSERT INTO export_windows ${sql({
    export_id: id, table_name: 'events', window_from: `${at(`${hour}:00`)}Z`, revision: 0, ...fields
  })}`
  await sql`UPDATE exports SET paused = true`
  await plan('04', { reason: 'backfill', window_to: `${at('05:00')}Z` })
  // Of a process that died when it had counted nothing.
  await plan('06', { reason: 'schedule', window_to: `${at('07:00')}Z`, parts: 0 })
  for (const hour of ['04', '06']) await insertEvents(clickhouse, 3, () => ({ received_at: at(`${hour}:10`) }))
  run()
  await completeThrough(clickhouse, '07:00')
  await waitFor(async () => (await sql`SELECT FROM export_windows WHERE written_at IS NOT NULL`).length === 3)
  const written = async (): Promise<unknown[]> =>
    (await readManifests(files)).map(({ file, rows, reason }) => [file.slice(28, 33), rows, reason])
  t.same(await written(), [['06/r0', 0, 'schedule'], ['06/r1', 3, 'late_rows'], ['04/r0', 3, 'backfill']])

  await insertEvents(clickhouse, 1, () => ({ received_at: at('04:30') }))
  await sql`UPDATE exports SET paused = false`
  await waitFor(async () => (await readManifests(files)).length === 4)
  t.same((await written()).slice(3), [['04/r1', 4, 'late_rows']])
  const [stored, exported] = await compareEvents(clickhouse, files)
  t.same(exported, stored)

  // A restored Postgres that plans an erasure anew must not take the old revision for it.
  await sql`UPDATE export_windows SET written_at = NULL, sequence = NULL, parts = NULL, reason = 'erasure' WHERE revision = 1 AND window_from = ${`${at('04:00')}Z`}`
  await waitFor(async () => (await readManifests(files)).length === 5)
  t.same((await written()).slice(4), [['04/r2', 4, 'erasure']])
})

t.test('an export that is paused while many of its windows are due writes no further one', async (t) => {
  const { sql, clickhouse, root, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql)
  const running = startExports({ sql, clickhouse }, {
    folder: root,
    // Paused, it could not go on after a lease that a busy machine had lost.
    leaseMs: 60_000,
    async onStep (step) { if (step === 'next') await sql`UPDATE exports SET paused = true` }
  })
  t.teardown(async () => await running.stop())
  await completeThrough(clickhouse, '10:00')
  await waitUntilDone('07:00')
  await setTimeout(500)
  t.same((await readManifests(path.join(root, folder))).map(({ file }) => file.slice(28, 30)), ['06'])
})

t.test('a backfill that could not be recorded keeps its position in the chain, whatever is planned meanwhile', async (t) => {
  const { sql, clickhouse, root, waitUntilDone } = await start(t)
  const { id, folder } = await createExport(sql)
  for (const hour of ['05', '06']) await insertEvents(clickhouse, 3, () => ({ received_at: at(`${hour}:10`) }))
  const [person] = await queryRows<{ id: string }>(clickhouse, "SELECT DISTINCT person_id AS id FROM events WHERE distinct_id = 'user-1'")
  let records = 0
  const running = startExports({ sql, clickhouse }, {
    folder: root,
    async onStep (step) {
      if (step !== 'record' || ++records !== 2) return
      await reviseExports(sql, 1, [person?.id ?? ''])
      throw new Error('Postgres is unavailable')
    }
  })
  t.teardown(async () => await running.stop())
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')
  await clickhouse.command({ query: "ALTER TABLE events DELETE WHERE distinct_id = 'user-1' SETTINGS mutations_sync = 1" })
  await sql`
    INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
    VALUES (${id}, 'events', ${`${at('05:00')}Z`}, ${`${at('06:00')}Z`}, 0, 'backfill')`
  await waitFor(async () => (await sql`UPDATE window_tasks SET retry_at = now() WHERE error <> ''`).count === 1)
  await waitUntilDone('07:00')
  t.same((await readManifests(path.join(root, folder))).map(({ sequence, file }) => [sequence, file.slice(28, 33)]), [
    [1, '06/r0'], [2, '05/r0'], [3, '06/r1']
  ])
  await promisify(execFile)(process.execPath, ['cli/commands/verify-export.js', root])
})

t.test('windows by schedule go before a backfill, also those that are closed while it runs', async (t) => {
  const { sql, clickhouse, root, waitUntilDone } = await start(t)
  const { id, folder } = await createExport(sql)
  await sql`
    INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
    SELECT ${id}, 'events', at, at + interval '1 hour', 0, 'backfill' FROM unnest(${['03', '04', '05', '06'].map((hour) => `${at(`${hour}:00`)}Z`)}::timestamptz[]) AS at`
  let written = 0
  const running = startExports({ sql, clickhouse }, {
    folder: root,
    async onStep (step) { if (step === 'next' && ++written === 2) await completeThrough(clickhouse, '08:00') }
  })
  t.teardown(async () => await running.stop())
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('08:00')
  t.same((await readManifests(path.join(root, folder))).map(({ file, reason }) => `${file.slice(28, 30)} ${reason}`), [
    '06 schedule', '03 backfill', '07 schedule', '04 backfill', '05 backfill'
  ])
})

t.test('what a filter leaves out is counted; columns are only ever added', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const filter = { events: ['order paid', "it's"], where: [{ key: 'amount', operator: 'lt', value: 5 }] }
  const { folder } = await createExport(sql, { filter })
  const files = path.join(root, folder)
  await insertEvents(clickhouse, 20, (index) => ({ received_at: at('06:10'), event: index % 2 === 0 ? 'order paid' : 'page' }))
  run()
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')
  await clickhouse.command({ query: "ALTER TABLE events ADD COLUMN plan String MATERIALIZED JSONExtractString(properties, 'plan')" })
  await insertEvents(clickhouse, 4, () => ({ received_at: at('07:10'), properties: '{"amount":1,"plan":"pro"}', event: "it's" }))
  await completeThrough(clickhouse, '08:00')
  await waitUntilDone('08:00')
  await clickhouse.command({ query: 'ALTER TABLE events DROP COLUMN plan' })
  await insertEvents(clickhouse, 2, () => ({ received_at: at('08:10'), properties: '{"amount":1}' }))
  await completeThrough(clickhouse, '09:00')
  await waitUntilDone('09:00')

  const manifests = await readManifests(files)
  t.same(manifests.map(({ rows, left_out: leftOut }) => [rows, leftOut]), [[3, 17], [4, 0], [2, 0]])
  t.ok(manifests.every(({ filter }) => filter?.events?.[1] === "it's"))
  t.same(manifests.map(({ columns }) => columns.at(-1)?.[0]), ['without_person', 'plan', 'plan'])
  const table = `SELECT plan, CAST(count(*) AS INTEGER) AS rows FROM ${duckTable(files)} GROUP BY ALL ORDER BY plan`
  t.same(await askDuckDb(table), [{ plan: '', rows: 2 }, { plan: 'pro', rows: 4 }, { plan: null, rows: 3 }])
  t.same(await askLocalClickHouse(`SELECT plan, toString(date) AS date, count()::UInt32 AS rows
    FROM file('${files}/events/**/*.parquet') GROUP BY ALL ORDER BY rows SETTINGS schema_inference_mode = 'union', schema_inference_make_columns_nullable = 1`), [
    { plan: '', date: '2026-05-04', rows: 2 }, { plan: null, date: '2026-05-04', rows: 3 }, { plan: 'pro', date: '2026-05-04', rows: 4 }
  ])
})

t.test('a column that was made anew with another type keeps the one of the first files', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const files = path.join(root, (await createExport(sql)).folder)
  const alter = async (changes: string): Promise<unknown> => await clickhouse.command({ query: `ALTER TABLE events ${changes}` })
  const asText = (name: string): string => `ADD COLUMN ${name} String DEFAULT JSONExtractString(properties, '${name}')`
  const asNumber = (name: string): string => `ADD COLUMN ${name} Nullable(Float64) DEFAULT JSONExtract(properties, '${name}', 'Nullable(Float64)')`
  await alter(`${asText('p_a')}, ${asNumber('p_b')}`)
  await insertEvents(clickhouse, 1, () => ({ received_at: at('06:10'), properties: '{"p_a":"pro","p_b":2.5}' }))
  run()
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')
  await alter('DROP COLUMN p_a, DROP COLUMN p_b')
  await alter(`${asNumber('p_a')}, ${asText('p_b')}`)
  await insertEvents(clickhouse, 2, (index) => ({ received_at: at('07:10'), properties: index === 0 ? '{}' : '{"p_a":1.5,"p_b":"many"}' }))
  await completeThrough(clickhouse, '08:00')
  await waitUntilDone('08:00')
  t.same(await askDuckDb(`SELECT p_a, p_b FROM ${duckTable(files)} ORDER BY p_a`), [{ p_a: '', p_b: null }, { p_a: '1.5', p_b: null }, { p_a: 'pro', p_b: 2.5 }])
})

t.test('persons and merges: every copy whose insert began in the window, tombstones included', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql, { tables: ['persons', 'merges'] })
  const files = path.join(root, folder)
  const [one, two] = ['0190a000-0000-5000-8000-000000000001', '0190a000-0000-5000-8000-000000000002']
  const copy = { project_id: 1, person_id: one, properties: '{"plan":"free"}', is_identified: true, version: 1, is_deleted: 0 }
  for (const rows of [
    [{ ...copy, copied_at: '2026-05-04 06:10:00' }, { ...copy, person_id: two, copied_at: '2026-05-04 06:59:59' }],
    [
      { ...copy, properties: '{"plan":"pro"}', version: 2, copied_at: '2026-05-04 07:00:00' },
      { ...copy, person_id: two, version: 2, is_deleted: 1, copied_at: '2026-05-04 07:00:00' }
    ]
  ]) await clickhouse.insert({ table: 'persons', values: rows, format: 'JSONEachRow' })
  await clickhouse.insert({
    table: 'person_overrides',
    format: 'JSONEachRow',
    values: [{ project_id: 1, old_person_id: two, person_id: one, version: 2, copied_at: '2026-05-04 07:00:00' }]
  })
  run()
  await completeThrough(clickhouse, '08:00')
  await waitUntilDone('08:00')

  const newest = `SELECT person_id, properties FROM ${duckTable(files, 'persons')}
    QUALIFY row_number() OVER (PARTITION BY person_id ORDER BY version DESC) = 1 AND is_deleted = 0`
  t.same(await askDuckDb(newest), [{ person_id: one, properties: '{"plan":"pro"}' }])
  t.same(await askDuckDb(`SELECT old_person_id, person_id FROM ${duckTable(files, 'merges')}`), [{ old_person_id: two, person_id: one }])
})

t.test('a person whose event is replayed while the file is made leaves it by an erasure', async (t) => {
  const { sql, clickhouse, root, waitUntilDone } = await start(t)
  const files = path.join(root, (await createExport(sql)).folder)
  await insertEvents(clickhouse, 3, () => ({ received_at: at('06:10') }))
  let replayed = false
  const running = startExports({ sql, clickhouse }, {
    folder: root,
    async onStep (step) {
      if (step !== 'make file' || replayed) return
      replayed = true
      await insertEvents(clickhouse, 1, () => ({ distinct_id: 'replayed', received_at: at('06:20') }))
    }
  })
  t.teardown(async () => await running.stop())
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')
  const [person] = await queryRows<{ id: string }>(clickhouse, "SELECT person_id AS id FROM events WHERE distinct_id = 'replayed'")
  await clickhouse.command({ query: "ALTER TABLE events DELETE WHERE distinct_id = 'replayed' SETTINGS mutations_sync = 1" })
  await reviseExports(sql, 1, [person?.id ?? ''])
  await waitUntilDone('07:00')
  t.same((await readManifests(files)).map(({ rows, reason }) => [rows, reason]), [[4, 'schedule'], [3, 'erasure']])
})

t.test('a window of many rows has several files', async (t) => {
  const { sql, clickhouse, root, run, waitUntilDone } = await start(t)
  const { folder } = await createExport(sql)
  await insertEvents(clickhouse, 50, (index) => ({ received_at: at(`06:${10 + index}`) }))
  run({ fileRows: 20 })
  await completeThrough(clickhouse, '07:00')
  await waitUntilDone('07:00')

  const [manifest] = await readManifests(path.join(root, folder))
  t.same(manifest?.files.map(({ name }) => name), ['r0-1.parquet', 'r0-2.parquet', 'r0-3.parquet'])
  t.ok(manifest?.files.every(({ rows }) => rows > 0 && rows < 50), 'each has its share')
  const [stored, exported] = await compareEvents(clickhouse, path.join(root, folder))
  t.same(exported, stored)
})

t.test('a file in the place of a manifest is not adopted, and nothing of it stands in the error', async (t) => {
  const { sql, clickhouse, root, run } = await start(t)
  const day = path.join(root, (await createExport(sql)).folder, 'events/date=2026-05-04/hour=06')
  await mkdir(day, { recursive: true })
  const manifest = { table: 'events', window: { from: '2026-05-03T23:00:00.000Z', to: '2026-05-04T07:00:00.000Z' }, revision: 0 }
  await writeFile(path.join(day, 'r0.manifest.json'), '')
  run()
  await completeThrough(clickhouse, '07:00')
  await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error <> ''`).length === 1)
  for (const content of ['secret of another server', 'null', JSON.stringify({ ...manifest, note: 'secret' })]) {
    await writeFile(path.join(day, 'r0.manifest.json'), content)
    await sql`UPDATE window_tasks SET error = '', retry_at = now()`
    await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error <> ''`).length === 1)
    const [{ error }] = await sql<[{ error: string }]>`SELECT error FROM window_tasks`
    t.match(error, /hour=06\/r0\.manifest\.json in the target is not the manifest of \["events","2026-05-04T06/)
    t.notMatch(error, /secret/)
  }
})
