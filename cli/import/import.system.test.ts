/** `millrace import`, from exported files to the proof, against the whole system. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { appendFile, mkdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { json, text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import zlib from 'node:zlib'
import { parquetWriteBuffer } from 'hyparquet-writer'
import t, { type Test } from 'tap'
import { createPosthogMapper } from '../../engines/import/from-posthog.ts'
import type { ImportedEvent } from '../../engines/import/imported-event.ts'
import { tryLockFile } from '../../platform/durable-folder.ts'
import { SipHasher } from '../../schema/sip-hash.ts'
import { writeZip } from '../../test/history/generate-export.ts'
import { createRandom, pickOne, type Random, shuffle } from '../../test/support/random.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { matchCaptured, runCaptured } from '../testing/run-captured.ts'
import { lines, nested, posthogRow, START, startImport } from '../testing/start-import.ts'
import { EventTable } from './event-digest.ts'
import { listFiles } from './list-files.ts'
import { type Proof, proveImport } from './prove-import.ts'
import type { ImportResult } from './import-options.ts'
import { runImport } from './run-import.ts'

t.test('PostHog: every format and compression, twice; the second time stores nothing', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  const rows = Array.from({ length: 3000 }, (_, i) => posthogRow(i))
  await writeFile(path.join(folder, 'a.jsonl'), lines(rows.slice(0, 600).map(nested)))
  await writeFile(path.join(folder, 'b.jsonl.gz'), zlib.gzipSync(lines(rows.slice(500, 1200).map(nested))))
  await writeFile(path.join(folder, 'c.jsonl.zst'), zlib.zstdCompressSync(lines(rows.slice(1200, 1800).map(nested))))
  await writeFile(path.join(folder, 'd.jsonl.br'), zlib.brotliCompressSync(lines(rows.slice(1800, 2400).map(nested))))
  const columns = ['uuid', 'event', 'distinct_id', 'timestamp', 'properties']
  await writeFile(path.join(folder, 'e.parquet'), Buffer.from(parquetWriteBuffer({
    columnData: columns.map((name) => ({ name, data: rows.slice(2400).map((row) => name === 'timestamp' ? new Date(String(row[name])) : row[name]) })),
    rowGroupSize: 250
  })))

  const first = await run('posthog', folder)
  t.equal(first.code, 0, first.err)
  t.match(first.out, /events +3000\n/)
  t.match(first.out, /duplicates +100\n/)
  t.match(first.out, /complete +yes/)
  const stored = { paid: 1000, seen: 1000, 'Ünïcode ✓': 1000 }
  t.same(await counts(), stored)

  t.match(first.out, /sent now +3100\nstored now +3000\n/)
  await rm(path.join(path.dirname(folder), 'state'), { recursive: true })
  matchCaptured(t, await run('posthog', folder), { code: 0, out: /sent now +3100\nstored now +0\n/ })
  t.same(await counts(), stored, 'nothing twice')
  const [row] = await stack.select('SELECT toString(timestamp) AS timestamp, properties, person_id FROM events WHERE project_id = {project:UInt32} AND uuid = {uuid:UUID}',
    { project: stack.project, uuid: rows[2999]!['uuid'] })
  t.match(row, { properties: rows[2999]!['properties'], timestamp: '2023-05-05 23:00:00.999' })
})

t.test('one byte that differs names the day, the event and the uuid, for a key of the project', async (t) => {
  const { folder, run } = await startImport(t, { withProjectKey: true })
  const file = path.join(folder, 'a.jsonl')
  const rows = Array.from({ length: 100 }, (_, i) => nested(posthogRow(i)))
  await writeFile(file, lines(rows))
  matchCaptured(t, await run('posthog', file), { code: 0 })

  const later = new Date(START + 30 * 3_600_000 + 31).toISOString()
  await writeFile(file, lines([
    { ...rows[0], properties: { amount: 1 } }, { ...rows[30], timestamp: later },
    ...rows.slice(1, 30), ...rows.slice(31), posthogRow(200)
  ]))
  const { code, out } = await run('posthog', file, '--verify', '--json')
  const { proof } = JSON.parse(out) as { proof: Proof }

  t.equal(code, 1)
  t.match(proof, {
    isComplete: false,
    differing: [
      { day: '2023-01-01', event: 'seen', missing: 0, changed: 0, otherProperties: 1 },
      { day: '2023-01-02', event: 'seen', missing: 0, changed: 1 },
      { day: '2023-01-09', event: 'Ünïcode ✓', source: 1, stored: 0, missing: 1 }
    ]
  })
  t.same(proof.differences.map(({ uuid, what }) => [uuid.slice(0, 8), what]),
    [['00000000', 'properties'], ['0000001e', 'changed'], ['000000c8', 'missing']])
})

t.test('what cannot be imported is kept with its reason, and the rest goes on', async (t) => {
  const { folder, run, counts } = await startImport(t)
  await writeFile(path.join(folder, 'a.jsonl'), `${lines([nested(posthogRow(1))])}{"event": broken\n\n${lines([{ event: 'no time', distinct_id: 'a' }])}`)
  const { code, err } = await run('posthog', folder)

  t.equal(code, 5, err)
  t.match(err, /rejected\.ndjson/)
  const rejected = (await readFile(path.join(path.dirname(folder), 'state/rejected.ndjson'), 'utf8')).trim().split('\n').map((line) => JSON.parse(line))
  t.match(rejected, [
    { file: 'a.jsonl', row: 2, error: 'the line is not JSON', text: '{"event": broken' },
    { file: 'a.jsonl', row: 4, error: 'timestamp is not a time' }
  ])

  const whole = zlib.gzipSync(lines(Array.from({ length: 500 }, (_, i) => nested(posthogRow(1000 + i)))))
  const cut = path.join(folder, 'b.jsonl.gz')
  await writeFile(cut, whole)
  await truncate(cut, whole.length - 200)
  const broken = await run('posthog', folder)
  t.equal(broken.code, 1)
  t.match(broken.err, /b\.jsonl\.gz was not read completely: .*end of file/)
  await writeFile(cut, whole)
  matchCaptured(t, await run('posthog', folder), { code: 5 })
  t.same(Object.values(await counts()).reduce((sum, n) => sum + n, 0), 501)
  matchCaptured(t, await run('posthog', path.join(folder, 'nowhere')), { code: 1, err: /no such file or folder/ })
  matchCaptured(t, await run('pendo', folder), { code: 2, err: /Allowed choices are posthog, mixpanel/ })
})

t.test('an import that was interrupted goes on where it was, and its proof is of the whole', async (t) => {
  const { folder, run, counts } = await startImport(t)
  const file = path.join(folder, 'a.jsonl')
  await writeFile(file, lines(Array.from({ length: 2500 }, (_, i) => nested(posthogRow(i)))))
  const state = path.join(path.dirname(folder), 'state')
  matchCaptured(t, await run('posthog', folder), { code: 0 })
  const progress = JSON.parse(await readFile(path.join(state, 'progress.json'), 'utf8'))
  const [fingerprint = ''] = Object.keys(progress)
  t.match(progress[fingerprint], { file: 'a.jsonl', rows: 2500 })
  await writeFile(path.join(state, 'progress.json'), JSON.stringify({ [fingerprint]: { file: 'a.jsonl', rows: 1700 } }))

  const again = await run('posthog', folder)
  matchCaptured(t, again, { code: 0, out: /events +2500\n/ })
  t.equal((await counts())['seen'], 834)
  await appendFile(file, lines([nested(posthogRow(2501))]))
  matchCaptured(t, await run('posthog', folder), { code: 0, out: /events +2501\n/ }, 'a file that grew is read anew')
  await writeFile(path.join(state, 'progress.json'), '{"a.jsonl')
  matchCaptured(t, await run('posthog', folder), { code: 1, err: /progress\.json is damaged; delete it/ })
  await rm(state, { recursive: true })
  await writeFile(state, 'a file where the folder should be')
  matchCaptured(t, await run('posthog', folder), { code: 1, err: /cannot write to .*state: / })
})

t.test('an importer that is killed goes on, and nothing is stored twice', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  await writeFile(path.join(folder, 'a.jsonl'), lines(Array.from({ length: 30_000 }, (_, i) => nested(posthogRow(i)))))
  const state = path.join(path.dirname(folder), 'state')
  const main = path.join(import.meta.dirname, '../main.ts')
  const total = async (): Promise<number> => Object.values(await counts()).reduce((sum, n) => sum + n, 0)
  const signals: (string | null)[] = []
  for (const patienceMs of [0, 200, 400]) {
    const args = [main, 'import', 'posthog', folder, '--project', String(stack.project), '--state', state]
    const child = spawn(process.execPath, args, {
      env: { ...process.env, MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }, stdio: 'ignore'
    })
    const ended = once(child, 'exit')
    const before = await total()
    // Some events are stored at this point, and some are in transit; where all were sent before, it ends by itself.
    await waitFor(async () => child.exitCode !== null || await total() > before)
    await sleep(patienceMs)
    child.kill('SIGKILL')
    await ended
    signals.push(child.signalCode)
  }
  t.ok(signals.includes('SIGKILL'))

  matchCaptured(t, await run('posthog', folder), { code: 0, out: /events +30000\n[^]*complete +yes/ })
  t.same(await counts(), { paid: 10_000, seen: 10_000, 'Ünïcode ✓': 10_000 })
})

/** Persons of PostHog with what their events said by and by, and how they ended. */
function buildPersons (random: Random): { events: object[], rows: object[], expected: [string[], object][] } {
  const events: object[] = []
  const rows: object[] = []
  const expected: [string[], object][] = []
  for (let i = 0; i < 8; i++) {
    const person = `0195aaaa-0000-4000-8000-00000000000${i}`
    const ids = [`ann-${i}`, ...Array.from({ length: Math.floor(random() * 3) }, (_, n) => `device-${i}-${n}`)].sort()
    const properties = { plan: pickOne(['free', 'pro'], random), visits: i }
    const steps = [
      { event: '$identify', $anon_distinct_id: ids.at(-1), $set: { plan: 'free', gone: true } }, { event: 'seen', $unset: ['gone'] },
      { event: '$set', $set: properties }, { event: 'paid', $set_once: { visits: 1000 } }
    ]
    for (const [at, { event, ...more }] of steps.entries()) {
      const id = at === 0 ? `ann-${i}` : pickOne(ids, random)
      events.push(nested({ ...posthogRow(100 * i + at), event, distinct_id: id, properties: JSON.stringify(more) }))
    }
    for (const id of ids) {
      rows.push({ team_id: 1, distinct_id: id, person_id: person, properties, is_deleted: false, created_at: '2023-01-01T00:00:00Z' })
    }
    expected.push([[person, ...ids], properties])
  }
  return { events: shuffle(events, random), rows: shuffle(rows, random), expected }
}

t.test('persons of PostHog end the same, whatever comes first', async (t) => {
  const random = createRandom(Number(process.env.MILLRACE_TEST_SEED ?? 43))
  for (const order of ['together', 'persons first', 'events first']) {
    const { folder, run, stack } = await startImport(t)
    const { events, rows, expected } = buildPersons(random)
    // The name says which is read first.
    const [persons, ofEvents] = [path.join(folder, random() < 0.5 ? '1.jsonl' : '3.jsonl'), path.join(folder, '2.jsonl')]
    await writeFile(persons, lines(rows))
    await writeFile(ofEvents, lines(events))
    const runs = {
      together: [[folder]], 'persons first': [[persons], [ofEvents]],
      'events first': [[ofEvents], [persons]]
    }[order] ?? []
    for (const args of runs) matchCaptured(t, await run('posthog', ...args), { code: 0, out: /complete +yes/ }, order)

    const read = async (): Promise<unknown[]> => (await stack.sql<{ ids: string[], properties: object }[]>`
      SELECT array_agg(d.distinct_id ORDER BY d.distinct_id) AS ids, p.properties
      FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id WHERE p.project_id = ${stack.project}
      GROUP BY p.id ORDER BY ids`).map(({ ids, properties }) => [ids, properties])
    await waitFor(async () => isDeepStrictEqual(await read(), expected))
      .catch(async () => { t.same(await read(), expected, order) })
  }
})

t.test('who was anonymous in PostHog is anonymous here, and merged at the login after the move', async (t) => {
  const { folder, run, stack } = await startImport(t)
  const row = (person: number, id: string, more = {}): object =>
    ({ team_id: 1, distinct_id: id, person_id: `0195bbbb-0000-4000-8000-00000000000${person}`, properties: { id }, created_at: '2023-01-01T00:00:00Z', ...more })
  const rows = [row(1, 'visitor'), row(2, 'ann'), row(2, 'phone of ann'), row(3, 'bob', { is_identified: true }), row(4, 'cem'), row(4, 'phone of cem')]
  await writeFile(path.join(folder, 'persons.jsonl'), lines([...rows, row(1, 'visitor', { properties: { id: 'visitor', plan: 'pro' } })]))
  matchCaptured(t, await run('posthog', folder), { code: 0, out: /complete +yes/ })
  await rm(path.join(path.dirname(folder), 'state'), { recursive: true })
  matchCaptured(t, await run('posthog', folder), { code: 0, out: /complete +yes/ }, 'again')

  const login = (id: string, before: string): object => ({ event: '$identify', distinct_id: id, properties: { $anon_distinct_id: before } })
  const batch = [login('ann', 'visitor'), login('cem', 'ann'), login('cem', 'bob'), { event: '$set', distinct_id: 'last', properties: { $set: { last: true } } }]
  const sent = await fetch(`${stack.url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: stack.projectApiKey, batch })
  })
  t.equal(sent.status, 200)
  const read = async (): Promise<unknown> => (await stack.sql<{ ids: string[] }[]>`
    SELECT array_agg(d.distinct_id ORDER BY d.distinct_id) FILTER (WHERE d.distinct_id NOT LIKE '0195bbbb%') AS ids
    FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id WHERE p.project_id = ${stack.project}
    GROUP BY p.id ORDER BY ids`).map(({ ids }) => ids)
  const expected = [['ann', 'phone of ann', 'visitor'], ['bob'], ['cem', 'phone of cem'], ['last']]
  await waitFor(async () => isDeepStrictEqual(await read(), expected))
    .catch(async () => { t.same(await read(), expected) })
})

t.test('Mixpanel, Amplitude in its zip, and a CSV with a mapping', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  await writeFile(path.join(folder, 'mixpanel.json'), lines(Array.from({ length: 20 }, (_, i) => ({
    event: 'Signed up', properties: { time: START / 1000 + i, distinct_id: `m${i}`, $insert_id: `i${i}`, plan: 'pro' }
  }))))
  matchCaptured(t, await run('mixpanel', path.join(folder, 'mixpanel.json'), '--timezone', 'Europe/Berlin'), { code: 0, out: /complete +yes/ })

  const amplitude = lines(Array.from({ length: 20 }, (_, i) => ({
    uuid: `${i.toString(16).padStart(8, '0')}-bbbb-11ee-8ccc-123456789012`, event_type: 'bought', event_time: '2023-02-02 10:00:00.000123',
    user_id: 'ann', device_id: 'phone', event_properties: { i }, user_properties: {}
  })))
  await writeFile(path.join(folder, 'amplitude.zip'), writeZip({ '123/1.json.gz': zlib.gzipSync(amplitude) }))
  matchCaptured(t, await run('amplitude', path.join(folder, 'amplitude.zip')), { code: 0, out: /complete +yes/ })

  await writeFile(path.join(folder, 'plain.csv'), 'who,what,at,amount,note\nann,order,2023-03-03 10:00:00,12.5,"a, b"\nbob,order,2023-03-03 11:00:00,3,\n')
  const csv = await run('files', path.join(folder, 'plain.csv'), '--map', 'event=what', '--map', 'distinct_id=who')
  matchCaptured(t, csv, { code: 0, err: /Mapping: --map event=what --map timestamp=at --map distinct_id=who/ })
  matchCaptured(t, await run('files', path.join(folder, 'plain.csv')), { code: 1, err: /no column found for event and distinct_id/ })

  t.same(await counts(), { $identify: 1, 'Signed up': 20, bought: 20, order: 2 })
  const [first] = await stack.select("SELECT toString(min(timestamp)) AS at, any(ip) AS ip FROM events WHERE project_id = {project:UInt32} AND event = 'Signed up'", { project: stack.project })
  t.match(first, { at: '2022-12-31 23:00:00.000', ip: '' })
})

t.test('a file without the columns of an event is named, and the others are imported, by all columns of their first rows', async (t) => {
  const { folder, run, counts } = await startImport(t)
  const rows = [{ note: 'of no event' }, { what: 'seen', at: START, who: 'ann' }, { id: 'one', what: 'seen', at: START, who: 'ann' }, { id: 'one', what: 'seen', at: START, who: 'ann' }]
  await writeFile(path.join(folder, 'a.parquet'), Buffer.from(parquetWriteBuffer({ columnData: [{ name: 'other', data: ['x', 'y'] }] })))
  await writeFile(path.join(folder, 'b.ndjson'), lines(rows))
  const { code, out, err } = await run('files', folder, '--map', 'event=what', '--map', 'distinct_id=who')
  t.equal(code, 1)
  t.match(out, /events +2\nduplicates +1\nrejected +1\n[^]*complete +no/)
  t.match(err, /a\.parquet was not read completely: --map event=what: no column what; columns: other\n/)
  t.match(err, /Mapping: --map event=what --map timestamp=at --map distinct_id=who --map uuid=id\n/)
  t.same(await counts(), { seen: 2 })

  const posthog = path.join(path.dirname(folder), 'posthog')
  await mkdir(posthog)
  const ids = [posthogRow(0), posthogRow(1)]
  for (const [name, columns] of [['a', ['uuid', 'event', 'distinct_id', 'timestamp']], ['b', ['event', 'distinct_id', 'properties']]] as const) {
    const columnData = columns.map((column) => ({ name: column, data: ids.map((row) => row[column]) }))
    await writeFile(path.join(posthog, `${name}.parquet`), Buffer.from(parquetWriteBuffer({ columnData })))
  }
  const result = await run('posthog', posthog, '--dry-run')
  matchCaptured(t, result, { code: 1, out: /events +0\nduplicates +0\nrejected +0\n/ })
  t.match(result.err, /a\.parquet was not read completely: no column properties; [^]*b\.parquet was not read completely: no column timestamp; /)
})

t.test('events that are altered or too large are reported, and the rest is stored once', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  const row = (event: string, more: object = {}): object => ({ event, timestamp: START, distinct_id: 'ann', ...more })
  const texts = [row('nul', { distinct_id: 'a\0b' }), row('half', { note: '\ud800' }), row('large', { note: 'x'.repeat(19_995_000) }), row('last')]
  await writeFile(path.join(folder, 'a.jsonl'), `${lines(texts)}{"event": "number", "timestamp": ${START}, "distinct_id": "ann", "n": 1e400}\n`)
  await writeFile(path.join(folder, 'b.csv'), 'event;timestamp;distinct_id\n')
  await writeFile(path.join(folder, 'README.md'), '# Export\n')
  await symlink('.', path.join(folder, 'self'))
  const result = await run('files', folder)
  matchCaptured(t, result, { code: 5, out: /rows +5\nevents +4\nduplicates +0\nrejected +1\naltered +3\n[^]*complete +yes/ })
  t.match(result.err, /README\.md: left out; [^]*b\.csv: has no rows/)
  t.equal(result.err.split('Mapping: ').length, 2)
  t.same(await counts(), { half: 1, last: 1, nul: 1, number: 1 })
  const [rejected] = (await readFile(path.join(path.dirname(folder), 'state/rejected.ndjson'), 'utf8')).split('\n')
  t.match(JSON.parse(rejected ?? ''), { file: 'a.jsonl', row: 3, error: /^properties have more than 19990000 bytes/ })

  await writeFile(path.join(folder, 'b.csv.gz'), 'not gz')
  matchCaptured(t, await run('files', folder, '--verify'), { code: 1, out: /complete +no/, err: /b\.csv\.gz was not read completely: the content is not gz/ })
  const { url, personalApiKey } = stack
  matchCaptured(t, await runCaptured(['import', 'files', folder, '--project', '99999'], { MILLRACE_URL: url, MILLRACE_KEY: personalApiKey }),
    { code: 1, err: /there is no project 99999/ })
})

t.test('one import at a time uses a state folder, and a full disk there is reported as such', async (t) => {
  const { folder, run, counts } = await startImport(t)
  const state = path.join(path.dirname(folder), 'state')
  await writeFile(path.join(folder, 'a.jsonl'), `${lines([nested(posthogRow(0))])}none\n`)
  await mkdir(state)
  const lock = tryLockFile(path.join(state, 'lock'))
  matchCaptured(t, await run('posthog', folder), { code: 1, err: /another import uses .*state; wait until it ends, or choose another folder/ })
  lock?.release()
  await symlink('/dev/full', path.join(state, 'rejected.ndjson'))
  matchCaptured(t, await run('posthog', folder), { code: 1, err: /cannot write to .*state: ENOSPC.*; make it writable, then run the same command again/ })
  await rm(path.join(state, 'rejected.ndjson'))
  matchCaptured(t, await run('posthog', folder), { code: 5, out: /complete +yes/ })
  t.same(await counts(), { seen: 1 })
})

t.test('an event that was captured live and is imported counts once, in whatever form its uuid is written', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  const event = (uuid: string | number): object => ({ uuid, event: 'paid', distinct_id: 'ann', timestamp: new Date(START).toISOString(), properties: { uuid } })
  const uuid = '0195cccc-0000-4000-8000-0000000000'
  const batch = [event(`${uuid}01`), event(`{${uuid}02}`.toUpperCase()), event(`${uuid}03`.replaceAll('-', '')), event('order-17'), event(17)]
  const sent = await fetch(`${stack.url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: stack.projectApiKey, historical_migration: true, batch })
  })
  t.equal(sent.status, 200)
  await writeFile(path.join(folder, 'a.jsonl'), lines([...batch, event(`${uuid}04`)]))

  matchCaptured(t, await run('posthog', folder), { code: 0, out: /events +6\n[^]*complete +yes/ })
  t.same(await counts(), { paid: 6 })
})

t.test('a retention rule is named before anything is sent', async (t) => {
  const { folder, run, stack } = await startImport(t)
  await writeFile(path.join(folder, 'a.jsonl'), lines([nested(posthogRow(0))]))
  t.notMatch(await run('posthog', folder, '--dry-run'), { err: /Retention/ })
  const { status } = await fetch(`${stack.url}/api/retention`, {
    method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ what: 'events', project_id: stack.project, days: 4000 })
  })
  t.equal(status, 200)
  matchCaptured(t, await run('posthog', folder, '--dry-run'), { code: 0, err: /Retention deletes events older than 4000 days/ })
})

t.test('what the store lacks is sent again: files of another content under one name, and events that were deleted', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  const file = path.join(folder, 'data.jsonl')
  const [january = '', february = ''] = [1000, 1060].map((first) =>
    lines(Array.from({ length: 60 }, (_, i) => nested(posthogRow(first + i)))))
  await writeFile(file, january)
  matchCaptured(t, await run('posthog', file), { code: 0, out: /sent now +60\n/ })
  await writeFile(file, february)
  const other = await run('posthog', file)
  matchCaptured(t, other, { code: 0, out: /sent now +60\n[^]*complete +yes/ })
  t.same(await counts(), { paid: 40, seen: 40, 'Ünïcode ✓': 40 })

  await stack.clickhouse.command({
    query: "DELETE FROM events WHERE project_id = {project:UInt32} AND event = 'seen' SETTINGS lightweight_deletes_sync = 2",
    query_params: { project: stack.project }
  })
  matchCaptured(t, await run('posthog', file, '--verify'), { code: 1, out: /sent now +0\n/ }, 'a comparison sends nothing')
  matchCaptured(t, await run('posthog', file), { code: 0, out: /sent now +20\nstored now +20\n[^]*complete +yes/ })
  matchCaptured(t, await run('posthog', file), { code: 0, out: /sent now +0\n[^]*complete +yes/ })
  t.same(await counts(), { paid: 40, seen: 20, 'Ünïcode ✓': 40 })
})

t.test('missing events are found and named however many events differ', async () => {
  const event = (i: number): ImportedEvent =>
    ({ uuid: `u${i}`, event: `e${i % 3}`, distinct_id: 'ann', timestamp: START, properties: {}, json: '{}' })
  const events = Array.from({ length: 30 }, (_, i) => event(i))
  const digests = ['e0', 'e1', 'e2'].map((event) => ({ day: START / 86_400_000, event, count: 10, xor: 1n, sum: 1n, withProperties: 1n }))
  const missing: string[] = []
  const store = { digests: async () => [], events: async function * () {}, completeThrough: async () => 0 }
  const readEvents: Parameters<typeof proveImport>[2] = async (isMissing) => {
    for (const event of events) if (isMissing(event)) missing.push(event.uuid)
  }
  const proof = await proveImport(digests, store, readEvents, 15)
  t.same(proof.differing.map(({ missing }) => missing), [10, 10, 10])
  t.same(missing.sort(), events.map(({ uuid }) => uuid).sort())
})

t.test('an import of more events than a page beside others of the same day and name is complete', async (t) => {
  const { folder, run } = await startImport(t)
  for (const name of ['a.jsonl', 'b.jsonl']) {
    const rows = Array.from({ length: 6000 }, (_, i) => ({ ...nested(posthogRow(i % 20, ['seen'])), uuid: randomUUID() }))
    await writeFile(path.join(folder, name), lines(rows))
    matchCaptured(t, await run('posthog', path.join(folder, name)), { code: 0, out: /stored exactly so +1 of 1 days/ })
  }
})

t.test('each event of the files is compared with the stored one, however many there are', (t) => {
  const table = new EventTable()
  const hasher = new SipHasher([0, 0, 0, 0])
  const sipHash = (text: string): bigint => {
    hasher.reset()
    hasher.writeBytes(Buffer.from(text))
    hasher.hash()
    return (BigInt(hasher.high >>> 0) << 32n) + BigInt(hasher.low >>> 0)
  }
  const event = (i: number, json = '{}'): ImportedEvent =>
    ({ uuid: `u${i}`, event: 'seen', distinct_id: 'ann', timestamp: START, properties: {}, json })
  for (let i = 0; i < 3000; i++) {
    const [identity, properties] = [sipHash(`u${i}\nseen\nann\n${START}`), sipHash('{}')]
    table.addStored('2024-01-01', { ...event(i), identity, properties })
  }
  const all = (day: string, json?: string): Set<string> =>
    new Set(Array.from({ length: 3000 }, (_, i) => table.compare(day, i % 3 === 0 ? event(i, json) : event(i))))
  t.same(table.compare('2024-01-01', { ...event(1), timestamp: START + 1 }), 'changed')
  t.same(table.compare('2024-01-01', event(1)), 'seen')
  t.same([...all('2024-01-02')], ['missing'], 'of another day')
  t.same([...all('2024-01-02')], ['seen'], 'once')
  t.same([...all('2024-01-01', '{"n":1}')].sort(), ['equal', 'properties', 'seen'])
  t.end()
})

t.test('where nothing is known to be stored yet, as on a new installation, an import sends at once', async (t) => {
  const folder = t.testdir({ 'a.jsonl': lines([nested(posthogRow(0))]) })
  let received = 0
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      received += (body as { batch: object[] }).batch.length
      response.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })

  const { sentNow } = await runImport({
    source: 'posthog', project: 1, projectKey: 'phc', stateFolder: path.join(folder, 'state'), files: await listFiles([folder]), personsFrom: 'export',
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, eventsPerSecond: 0, mode: 'import', onProgress () {},
    // The watermark begins with the first event.
    store: {
      digests: async () => [], events: async function * () {},
      completeThrough: async () => received === 0 ? 0 : Date.now() + 60_000
    },
    createMapperOf: () => async () => createPosthogMapper({ project: 1, now: Date.now(), personsFrom: 'export' })
  })
  t.equal(sentNow, 1)
})

/** An import of rows into a server that says how it answers each request; its store is empty. */
async function startAnswered (
  t: Test, rows: readonly object[], answer: (body: string) => number | Promise<number>
) {
  const folder = t.testdir({ 'a.jsonl': lines(rows) })
  const server = createServer((request, response) => {
    void text(request).then(async (body) => {
      response.statusCode = await answer(body)
      response.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const stateFolder = path.join(folder, '.state')
  return {
    progress: path.join(stateFolder, 'progress.json'),
    run: async (mode: 'import' | 'verification', eventsPerSecond = 0): Promise<ImportResult> => await runImport({
      source: 'posthog', project: 1, projectKey: 'phc', stateFolder, files: await listFiles([folder]), personsFrom: 'export',
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, eventsPerSecond, mode, onProgress () {},
      store: {
        digests: async () => [], events: async function * () {}, completeThrough: async () => Date.now() + 60_000
      },
      createMapperOf: () => async () => createPosthogMapper({ project: 1, now: Date.now(), personsFrom: 'export' })
    })
  }
}

const countMissing = ({ proof }: ImportResult): number | undefined =>
  proof?.differing.reduce((sum, { missing }) => sum + missing, 0)

t.test('of two copies of an event the too large one is refused, and the proof misses the other one', async (t) => {
  const small = nested(posthogRow(0))
  const large = { ...small, properties: { note: 'large: "\u00fc\u0001"', n: 1e21 } }
  const { run, progress } = await startAnswered(t, [large, small], (body) => body.includes('large') ? 413 : 200)
  for (const mode of ['import', 'verification'] as const) {
    const result = await run(mode)
    t.match(result, { events: 1, duplicates: 0, rejected: 1, conflicts: {}, proof: { isComplete: false } }, mode)
    t.equal(countMissing(result), 1, mode)
  }
  const saved = Object.values<object>(JSON.parse(await readFile(progress, 'utf8')))
  for (const done of saved) t.same(Object.keys(done), ['file', 'rows'], 'it does not grow with what is refused')
})

t.test('what was refused stays refused until it is sent again and answered', async (t) => {
  let answer = (body: string): number | Promise<number> => body.includes('large') ? 413 : 200
  const rows = [{ ...nested(posthogRow(0)), properties: { note: 'large' } }, nested(posthogRow(1)), nested(posthogRow(2))]
  const { run, progress } = await startAnswered(t, rows, async (body) => await answer(body))
  t.match(await run('import'), { rejected: 1 })
  const saved = JSON.parse(await readFile(progress, 'utf8'))
  for (const done of Object.values<{ rows: number }>(saved)) done.rows = 2
  await writeFile(progress, JSON.stringify(saved))
  const { mtimeMs } = await stat(progress)
  // The import ends when the third row is acknowledged and saved, and the first one is on its way.
  answer = async (body) => {
    if (!body.includes('large')) return 200
    await waitFor(async () => (await stat(progress)).mtimeMs > mtimeMs)
    return 400
  }
  await t.rejects(run('import', 1), { code: 'MILLRACE_IMPORT_REFUSED' })
  const after = await run('verification')
  t.same([after.rejected, countMissing(after)], [1, 2])

  answer = () => 200
  t.match(await run('import'), { rejected: 0 })
  const last = await run('verification')
  t.same([last.rejected, countMissing(last)], [0, 3], 'and no longer')
})

t.test('an event that is stored, and not as the files have it, is a difference of content', async (t) => {
  const { folder, run, stack } = await startImport(t)
  const row = (uuid: number, properties: string): string => `{"uuid":"0000000${uuid}-aaaa-4bbb-8ccc-123456789012","event":"seen","distinct_id":"ann","timestamp":"2023-01-01T00:00:00Z","properties":${properties}}\n`
  const file = path.join(folder, 'a.jsonl')
  const proofOf = async (): Promise<ImportResult> => JSON.parse(await readFile(path.join(path.dirname(folder), 'state/proof.json'), 'utf8'))
  await writeFile(file, row(1, '{"n":1}') + row(1, '{"n":2}') + row(2, '{"n":1}') + row(2, '{"n":1}'))
  const conflict = await run('posthog', folder)
  matchCaptured(t, conflict, { code: 5, out: /duplicates +2\n[^]*conflicting +1\n[^]*complete +yes[^]*2023-01-01 seen +1\n/ })
  t.match(await proofOf(), {
    source: 'posthog', project: stack.project, url: stack.url, exitCode: 5, conflicts: { '2023-01-01 seen': 1 },
    files: [{ name: 'a.jsonl' }], days: ['2023-01-01', '2023-01-01'], finishedAt: /^20.*Z$/, proof: { isComplete: true }
  })

  await writeFile(file, row(3, '{"n":123456789012345678901234567890}') + row(4, '{"n":12345678901234567890, "text":"123456789012345678901"}'))
  matchCaptured(t, await run('posthog', folder), { code: 5, out: /altered +1\n[^]*complete +yes/ })
  await writeFile(file, row(5, `{"deep":${'['.repeat(500)}${']'.repeat(500)}}`))
  matchCaptured(t, await run('posthog', folder), { code: 5, out: /complete +yes[^]*other properties/ })
  await writeFile(file, row(4, '{"n":12345678901234567890, "text":"223456789012345678901"}'))
  matchCaptured(t, await run('posthog', folder, '--verify'), { code: 5, out: /complete +yes/ })
  await writeFile(path.join(folder, 'b.jsonl'), '[]')
  matchCaptured(t, await run('posthog', folder, '--verify'), { code: 1 })
  t.match(await proofOf(), { exitCode: 1, broken: [{ file: 'b.jsonl' }], proof: { isComplete: false } })
})

t.test('without an export of persons, --persons events applies person changes, even after the import', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  await writeFile(path.join(folder, 'a.jsonl'), lines([nested(posthogRow(1))]))
  matchCaptured(t, await run('posthog', folder), { code: 0, out: /sent now +1\n/ })
  const plans = async (): Promise<unknown[]> => (await stack.sql<{ plan: unknown }[]>`
    SELECT properties->'plan' AS plan FROM persons WHERE project_id = ${stack.project}`).map(({ plan }) => plan)
  matchCaptured(t, await run('posthog', folder, '--persons', 'events'), { code: 0, out: /sent now +1\n/, err: /^Persons: from events too/ })
  await waitFor(async () => isDeepStrictEqual(await plans(), [1]))
  t.same(await counts(), { paid: 1 }, 'not stored twice')
})

t.test('options that do not apply are refused', async (t) => {
  const { folder, run } = await startImport(t)
  await writeFile(path.join(folder, 'a.jsonl'), lines([nested(posthogRow(0))]))
  matchCaptured(t, await run('posthog', folder, '--map', 'event=what'), { code: 2, err: /--map is an option of files, not of posthog/ })
  matchCaptured(t, await run('amplitude', folder, '--timezone', 'UTC'), { code: 2, err: /--timezone is an option of mixpanel/ })
  matchCaptured(t, await run('files', folder, '--persons', 'events'), { code: 2, err: /--persons is an option of posthog/ })
  matchCaptured(t, await run('files', folder, '--map', 'foo=what'), { code: 2, err: /--map foo=what: expected event, timestamp/ })
  matchCaptured(t, await run('posthog', folder, '--dry-run', '--verify'), { code: 2, err: /cannot be used with/ })
  matchCaptured(t, await run('posthog', folder, '--dry-run'), { code: 0, err: /^Persons: from person rows only, .*--persons events\.\n/ })
})

t.test('a dry run counts and sends nothing', async (t) => {
  const { folder, run, counts } = await startImport(t)
  await writeFile(path.join(folder, 'a.jsonl'), lines([nested(posthogRow(0)), nested(posthogRow(24))]))

  matchCaptured(t, await run('posthog', folder, '--dry-run'), { code: 0, out: /events +2\n[^]*days +2023-01-01 to 2023-01-02/ })
  t.same(await counts(), {})
})
