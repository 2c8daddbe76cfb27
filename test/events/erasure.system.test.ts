import { randomUUID } from 'node:crypto'
import { glob, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { listZip } from '../../cli/import/list-files.ts'
import { runCaptured } from '../../cli/testing/run-captured.ts'
import { chooseSettings, runMain } from '../../embedded/supervisor/testing/run-main.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { queueNotifications } from '../../platform/notifications.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { personsSubject } from '../../schema/wire/streams.ts'
import { type Stack, startStack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'

/** In every id and value of the people to be erased, so that a search finds what is left. */
const MARK = 'planted-mark-9f2c'

t.test('erased and anonymised people, and erased events, stay away after an import, a replay, and a restore', async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-test-erasure-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const stack = await startStack()
  t.teardown(async () => { await stack.stop() })
  const erased = Array.from({ length: 10 }, (_, i) => `${MARK}-${i}`)
  const veiled = [0, 1].map((i) => `${MARK}-veiled-${i}`)
  const others = Array.from({ length: 88 }, (_, i) => `other-${i}`)
  const history = [...erased, ...veiled, ...others].flatMap(eventsOf)
  await send(stack, history)
  await plantDeadLetter(stack, erased[3]!)
  await plantNotifications(stack, `${erased[5]}-device`)
  await waitFor(async () => (await count(stack)) === history.length && (await countPersons(stack)) === 100)
  const env = { PATH: process.env.PATH, MILLRACE_DATA_DIR: stack.dataDir }
  const backup = path.join(root, 'monday')
  const made = await runCaptured(['backup', backup], env)
  t.equal(made.code, 0, made.err)

  const half = await erase(stack, erased.slice(0, 9))
  t.match(half.found.filter(({ count }) => count > 0).map(({ where }) => where), ['events', 'notifications', 'persons', 'distinct_ids', 'dead_letters'])
  t.equal(half.found.find(({ where }) => where === 'dead_letters')?.count, 2)
  await waitFor(async () => (await stack.sql`SELECT 1 FROM notifications`).length === 0)
  t.equal(half.found.find(({ where }) => where === 'events')?.count, 9 * eventsOf('x').length)
  await erase(stack, [`${MARK}-9-device`])
  await waitUntilDone(stack)
  await t.test('an export has everything of one person', async (t) => {
    await stack.sql`
      WITH c AS (INSERT INTO cohorts (project_id, name, filters) VALUES (1, 'living', '{}') RETURNING id)
      INSERT INTO cohort_people (cohort_id, person) SELECT c.id, p.uuid FROM c, person_distinct_ids AS d JOIN persons AS p ON p.id = d.person_id
      WHERE distinct_id = ${`${veiled[0]}-device`}`
    const file = path.join(root, 'one.zip')
    const written = await runCaptured(['persons', 'export', `${veiled[0]}-device`, file], env)
    t.equal(written.code, 0, written.err)
    const texts = await readZip(file)
    t.match(texts['persons.jsonl']?.map(({ properties }) => properties), [{ email: `${veiled[0]}@example.com` }])
    t.same(texts['distinct_ids.jsonl']?.length, 2)
    t.match(texts['cohorts.jsonl'], [{ name: 'living' }])
    t.same(texts['events.jsonl']?.map(({ uuid }) => uuid).sort(), history.filter(({ distinct_id: id }) => String(id).startsWith(veiled[0]!)).map(({ uuid }) => uuid).sort())
  })
  await t.test('letters stay with the part of a split person that they are about', async (t) => {
    const [id, device] = ['other-7', 'other-7-device']
    await plantDeadLetter(stack, device)
    await plantDeadLetter(stack, id, { kind: 'merge', how: 'identify', otherDistinctId: device })
    const personsOf = async () => await stack.sql<{ id: string, person: string, note: string }[]>`
      SELECT distinct_id AS id, uuid AS person, properties->>'note' AS note FROM person_distinct_ids AS d JOIN persons AS p ON p.id = person_id
      WHERE distinct_id IN (${id}, ${device}) ORDER BY 1`
    await call(stack, `persons/${(await personsOf())[0]!.person}/split/`, { distinct_ids: [device] })
    for (const own of [id, device]) {
      const file = path.join(root, `${own}.zip`)
      const written = await runCaptured(['persons', 'export', own, file], env)
      t.equal(written.code, 0, written.err)
      t.match((await readZip(file))['dead_letters.jsonl'], [{ item: { distinctId: own } }], own)
    }
    await call(stack, 'dead_letters/replay/', {})
    await waitFor(async () => (await personsOf()).every(({ id, note }) => note === `letter of ${id}`))
    t.equal(new Set((await personsOf()).map(({ person }) => person)).size, 2, 'the replayed merge is from before the split')
  })
  await t.test('anonymised persons leave all counts as they were', async (t) => {
    // What the split and the letters changed is copied to ClickHouse a moment later.
    await waitFor(async () => (await stack.sql`SELECT 1 FROM persons_outbox`).length === 0)
    const before = await readCounts(stack)
    const args = ['persons', 'anonymise', veiled[0]!, `${veiled[1]}-device`, '--remove', 'note', '--remove', 'email']
    const counted = await runCaptured(args, env)
    t.match(counted.out, /events +6/)
    t.same(await readCounts(stack), before)
    const done = await runCaptured([...args, '--yes'], env)
    t.match(done, { code: 0 }, done.err)
    await waitUntilDone(stack)
    t.same(await readCounts(stack), before)
    t.equal((await stack.select(`SELECT 1 FROM events WHERE position(concat(distinct_id, properties), '${MARK}') > 0`)).length, 0)
    t.equal((await stack.sql`SELECT 1 FROM person_distinct_ids WHERE distinct_id LIKE ${`${MARK}%`}`).length, 0)
  })
  await t.test('events are erased by a filter', async (t) => {
    const args = ['persons', 'erase', '--events', '--event', 'visit', '--property', 'note', '--value', 'of other-5', '--to', new Date().toISOString()]
    t.match((await runCaptured(args, env)).out, /events +1/)
    const done = await runCaptured([...args, '--yes'], env)
    t.match(done, { code: 0 }, done.err)
    await waitUntilDone(stack)
    t.equal(await count(stack), 90 * 3 - 1)
  })
  await t.test('an import, a repeated event and a replay bring nothing back', async (t) => {
    await send(stack, history.map((event) => ({ ...event, uuid: randomUUID() })), { historical_migration: true })
    await replayOldLetter(stack, erased[4]!)
    const dropped = async (): Promise<number> =>
      Number((await stack.select<{ n: unknown }>("SELECT sum(count) AS n FROM ingestion_warnings WHERE reason = 'erased'"))[0]?.n)
    await waitFor(async () => await dropped() === 12 * eventsOf('x').length + 1)
    await waitFor(async () => (await count(stack)) === 90 * 3 - 1 + 88 * 3 - 1)
    // The history identifies the split device again. Persons change a moment later than events are stored.
    await waitFor(async () => (await countPersons(stack)) === 90)
  })
  await t.test('a new event is new data', async () => {
    await send(stack, [{ uuid: randomUUID(), event: 'visit', distinct_id: `back-${others[0]}`, properties: {}, timestamp: new Date().toISOString() }])
  })
  // Entries of ingest reach the books some seconds later than those of deletions.
  const balance = async (): Promise<number> =>
    Number((await stack.select<{ n: unknown }>('SELECT sum(balance) AS n FROM ledger'))[0]?.n)
  await waitFor(async () => await balance() === await count(stack))
  const second = path.join(root, 'tuesday')
  const later = await runCaptured(['backup', second], env)
  t.equal(later.code, 0, later.err)
  await stack.clickhouse.command({ query: 'OPTIMIZE TABLE events FINAL' })
  await stack.sql`CHECKPOINT`
  t.same(await findMark(second), [], 'the later backup')
  await stack.stop()

  const restored = path.join(root, 'data')
  const filled = await runCaptured(['restore', backup, '--json'], { PATH: process.env.PATH, MILLRACE_DATA_DIR: restored })
  t.equal(filled.code, 0, filled.err)
  t.equal(JSON.parse(filled.out).erased_again, 4)
  const main = runMain(t, await chooseSettings(restored))
  await main.ready()
  const { clickhouseUrl } = await readAddresses(restored)
  const clickhouse = connectClickHouse({ url: clickhouseUrl })
  t.teardown(async () => { await clickhouse.close() })
  const rows = await (await clickhouse.query({ query: `SELECT count() AS n FROM events WHERE position(properties, '${MARK}') > 0 OR position(distinct_id, '${MARK}') > 0`, format: 'JSONEachRow' })).json<{ n: string }>()
  t.same(rows, [{ n: '0' }])
  const left = await (await clickhouse.query({ query: "SELECT uniqExact(person_id) AS persons, count() AS events, countIf(event = 'visit' AND position(properties, 'of other-5\"') > 0) AS erased FROM events_with_person", format: 'JSONEachRow' })).json()
  t.same(left, [{ persons: '90', events: String(90 * 3 - 1), erased: '0' }])
})

function eventsOf (id: string): Record<string, unknown>[] {
  const timestamp = new Date(Date.now() - 3_600_000).toISOString()
  const common = { timestamp, properties: { note: `of ${id}`, $set: { email: `${id}@example.com` } } }
  return [
    { ...common, uuid: randomUUID(), event: 'visit', distinct_id: `${id}-device` },
    { ...common, uuid: randomUUID(), event: '$identify', distinct_id: id, properties: { ...common.properties, $anon_distinct_id: `${id}-device` } },
    { ...common, uuid: randomUUID(), event: 'paid', distinct_id: id }
  ]
}

async function send (stack: Stack, batch: readonly object[], more: object = {}): Promise<void> {
  const response = await fetch(`${stack.url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, batch, ...more })
  })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
}

/** Beside other tests it may take longer than an answer waits. */
async function waitUntilDone ({ sql }: Stack): Promise<void> {
  await waitFor(async () => (await sql`SELECT 1 FROM person_deletions WHERE done_at IS NULL`).length === 0)
}

/** What must stay when persons are anonymised. */
async function readCounts (stack: Stack): Promise<unknown> {
  const [events] = await stack.select(`
    SELECT count() AS events, uniqExact(uuid) AS uuids, uniqExact(person_id) AS persons, uniqExactIf(person_id, event = 'paid') AS paying,
      (SELECT count() FROM persons FINAL) AS stored FROM events_with_person SETTINGS final = 1`)
  const volumes = await stack.select('SELECT event, sum(volume) AS volume FROM event_volumes_by_day GROUP BY event ORDER BY event')
  return { events, volumes, persons: await countPersons(stack), ids: (await stack.sql`SELECT 1 FROM person_distinct_ids`).length }
}

async function readZip (file: string): Promise<Record<string, Record<string, unknown>[]>> {
  const lines: Record<string, Record<string, unknown>[]> = {}
  for await (const { name, open } of listZip(file)) {
    lines[name] = (await text(await open())).split('\n').filter((line) => line !== '').map((line) => JSON.parse(line))
  }
  return lines
}

interface Erased { found: { where: string, count: number }[], done_at: string | null }

async function erase (stack: Stack, ids: readonly string[]): Promise<Erased> {
  return await call(stack, 'erasures/', { distinct_ids: ids })
}

async function call (stack: Stack, path: string, body: object): Promise<any> {
  const response = await fetch(`${stack.url}/api/projects/1/${path}`, {
    method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${stack.personalApiKey}` }, body: JSON.stringify(body)
  })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  return await response.json()
}

async function count (stack: Stack): Promise<number> {
  return Number((await stack.select<{ n: string }>('SELECT count() AS n FROM events'))[0]?.n)
}

async function countPersons (stack: Stack): Promise<number> {
  return Number((await stack.sql<{ n: number }[]>`SELECT count(*)::int AS n FROM persons`)[0]?.n)
}

/** One that waits for a target, and one that became a dead letter. */
async function plantNotifications (stack: Stack, id: string): Promise<void> {
  const [{ target }] = await stack.sql<[{ target: number }]>`
    INSERT INTO targets ${stack.sql({ project_id: 1, name: 'ops', kind: 'webhook', url: 'https://example.com', enabled: false })} RETURNING id AS target`
  const notification = { type: 'event', data: JSON.stringify({ distinct_id: id, received_at: new Date(0).toISOString() }), text: 'visit' } as const
  await queueNotifications(stack.sql, target, [notification])
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  await publishDeadLetter(connection, {
    stage: 'notify', reason: 'undelivered', error: 'it answered 500', subject: `notify.${target}`, project: 1, headers: {}, id: `notify:${id}`,
    body: Buffer.from(JSON.stringify({ target_id: target, id: randomUUID(), ...notification }))
  })
  await connection.close()
}

async function plantDeadLetter (stack: Stack, id: string, more: object = {}): Promise<void> {
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  await publishDeadLetter(connection, { ...letterOf(id, more), id: `test:${id}` })
  await connection.close()
}

/** A letter that was copied before the erasure, and is published again after it. */
async function replayOldLetter (stack: Stack, id: string): Promise<void> {
  await plantDeadLetter(stack, id)
  await call(stack, 'dead_letters/replay/', {})
}

function letterOf (id: string, more: object) {
  const update = { kind: 'person', projectId: 1, uuid: randomUUID(), timestamp: Date.now() - 3_600_000, distinctId: id, set: { note: `letter of ${id}` }, ...more }
  return {
    stage: 'persons', reason: 'not_applicable', error: 'planted', subject: personsSubject(1), sequence: 1, project: 1, uuid: update.uuid, headers: {},
    body: Buffer.from(JSON.stringify([update]))
  } as const
}

async function findMark (folder: string): Promise<string[]> {
  const found: string[] = []
  for await (const entry of glob('**/*', { cwd: folder, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (entry.isFile() && (await readFile(file)).includes(MARK)) found.push(path.relative(folder, file))
  }
  return found
}
