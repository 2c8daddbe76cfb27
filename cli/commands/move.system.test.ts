import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { startTestNats } from '../../test/support/test-processes.ts'
import { createTestClickHouse, type TestClickHouse } from '../../test/support/test-stores.ts'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { FILE_TIMEOUT_MS } from '../../test/test-pool.ts'
import { type Captured, runCaptured } from '../testing/run-captured.ts'

t.setTimeout(FILE_TIMEOUT_MS)

const DAY_MS = 86_400_000
/** Beyond the last minute, which is left to the next run. */
const AGO_MS = 600_000

const toTime = (ms: number): string => new Date(ms).toISOString().slice(0, 23).replace('T', ' ')

interface Sides { from: TestClickHouse, to: TestClickHouse, move: (...args: string[]) => Promise<Captured> }

async function open (t: Test): Promise<Sides> {
  const [from, to] = [await createTestClickHouse(t), await createTestClickHouse(t)]
  const nats = await startTestNats(t)
  return {
    from,
    to,
    move: async (...args) => await runCaptured(['move', 'clickhouse', '--to', to.url, ...args],
      { CLICKHOUSE_URL: from.url, NATS_URL: nats.url })
  }
}

async function store (
  { client }: TestClickHouse, count: number, more: Record<string, unknown> = {}
): Promise<void> {
  const now = Date.now()
  const values = Array.from({ length: count }, (_, index) => ({
    project_id: 1, uuid: randomUUID(), event: ['visited', 'paid'][index % 2], distinct_id: `person ${index % 50}`,
    timestamp: toTime(now - index % 40 * DAY_MS), received_at: toTime(now - AGO_MS),
    inserted_at: toTime(now - AGO_MS - index), properties: JSON.stringify({ index, plan: 'free' }),
    property_types: 'eSplan', groups: { company: `c${index % 3}` }, ...more
  }))
  await client.insert({ table: 'events', format: 'JSONEachRow', values })
}

async function count ({ client }: TestClickHouse, table = 'events'): Promise<number> {
  const [row] = await queryRows<{ n: number }>(client, `SELECT toFloat64(count()) AS n FROM ${table} SETTINGS final = 0`)
  return Number(row?.n)
}

t.test('everything that is stored is copied once, repeated as often as one likes, and proven', async (t) => {
  const { from, to, move } = await open(t)
  await store(from, 3000)
  await from.client.command({ query: "ALTER TABLE events ADD COLUMN p_plan String DEFAULT JSONExtractString(properties, 'plan')" })
  const person = { project_id: 1, person_id: randomUUID(), properties: '{}', is_identified: true, created_at: toTime(0), version: 1, is_deleted: 0 }
  await from.client.insert({ table: 'persons', format: 'JSONEachRow', values: [person, { ...person, version: 2, is_deleted: 1 }, { ...person, person_id: randomUUID() }] })
  await from.client.insert({ table: 'ledger_by_source', format: 'JSONEachRow', values: [{ project_id: 1, minute: toTime(Date.now()).slice(0, 19), source: 'live.0', accepted: 3000 }] })

  await from.client.command({ query: 'CREATE VIEW `their view` AS SELECT 1 AS one' })

  const first = await move()
  t.equal(first.code, 0, first.err + first.out)
  t.match(first.err, /^not moved, because Millrace did not create it: table their view$/m)
  t.notMatch(first.err, /not moved.*table events/)
  t.match(first.out, /3000 events; this run copied 3000\. Both sides are equal up to /)
  t.equal(await count(to), 3000)
  const columns = 'SELECT groupBitXor(cityHash64(*)) AS hash FROM events SETTINGS final = 0'
  t.same(await queryRows(to.client, columns), await queryRows(from.client, columns), 'promoted column included')

  await store(from, 500)
  const again = await move()
  t.equal(again.code, 0, again.err + again.out)
  t.match(again.out, /3500 events; this run copied 500\./, 'only the new events')
  t.equal(await count(to), 3500)

  await store(from, 10, { inserted_at: toTime(Date.now()) })
  t.match((await move()).out, /3500 events; this run copied 0/, 'what was inserted a moment ago is left to the next run')
  const finished = await move('--finish')
  t.equal(finished.code, 0, finished.err + finished.out)
  t.match(finished.out, /3510 events; this run copied 10.* is closed: events wait/)
  t.equal(await count(to), 3510)
  for (const view of ['event_volumes', 'event_properties', 'ledger', 'persons FINAL']) {
    const sql = `SELECT * FROM ${view} ORDER BY ALL`
    t.same(await queryRows(to.client, sql), await queryRows(from.client, sql), view)
  }
  await t.rejects(store(from, 1), { code: '252' }, 'the source takes no insert')

  t.match(await move('--finish'), { code: 0, out: /this run copied 0\. Both sides are equal/ }, 'finished twice')
  t.match(await move(), { code: 1, err: /was closed by --finish/ })
  t.match(await move('--reopen'), { code: 0, out: /is open/ })
  await store(from, 1)
  t.match(await move('--finish'), { code: 0, out: /this run copied 1\. Both/ }, 'and finished once more')
  t.match(await move('--target-lost'), { code: 2, err: /with --reopen/ })
  // Of one month: each is compared for itself.
  await store(to, 5, { timestamp: toTime(Date.now()) })
  t.match(await move('--reopen'), { code: 1, err: /has 5 events more .*the pipeline already stores events there/ })
  t.match(await move('--finish'), { code: 1, err: /at least 5 rows that .* does not have/ })
  t.equal(await count(to), 3516, 'nothing of it was changed')
})

t.test('superseded rows of the source hide no events of the target from --reopen', async (t) => {
  const { from, to, move } = await open(t)
  await from.client.command({ query: 'SYSTEM STOP MERGES events' })
  await store(from, 100)
  await from.client.command({ query: 'INSERT INTO events SELECT * FROM events' })
  const finished = await move('--finish')
  t.equal(finished.code, 0, finished.err + finished.out)
  await to.client.command({ query: 'OPTIMIZE TABLE events FINAL' })
  await store(to, 5)
  t.match(await move('--reopen'), { code: 1, err: /has 5 events more .*the pipeline already stores events there/ })
})

t.test('a target that is not one is refused, and left as it is', async (t) => {
  const { from, to, move } = await open(t)
  await store(from, 100)
  t.match(await move('--to-cluster', ''), { code: 2 })
  const run = async (target: string): Promise<Captured> =>
    await runCaptured(['move', 'clickhouse', '--to', target], { CLICKHOUSE_URL: from.url })
  t.match(await run(from.url), { code: 1, err: /are the same: --to must be another ClickHouse/ })
  t.match(await run('ftp://nowhere'), { code: 2, err: /Use an address such as/ })
  const silent = await run('http://127.0.0.1:1/millrace')
  t.not(silent.code, 0, silent.err)
  const all = `${new URL(from.url).pathname.slice(1)}_all`
  await from.client.command({ query: `CREATE DATABASE ${all}` })
  t.match(await run(to.url), { code: 1, err: /is a node of a cluster: name the cluster with MILLRACE_CLICKHOUSE_CLUSTER/ })
  await from.client.command({ query: `DROP DATABASE ${all}` })
  const empty = new URL(to.url)
  empty.pathname = '/default'
  t.match(await run(empty.href), { code: 1, err: /has no Millrace tables: repeat the command with --migrate/ })

  await store(to, 20)
  t.match(await move(), { code: 1, err: /of 20 events of .* has 0: it belongs to another Millrace/ })
  t.match(await move('--remove-extra'), { code: 1, err: /it belongs to another Millrace/ }, 'with no option either')
  t.equal(await count(to), 20)
})

t.test('what was deleted from the source, or changed in the target, is named and mended', async (t) => {
  const { from, to, move } = await open(t)
  await store(from, 1000)
  t.match(await move(), { code: 0, err: String })
  await from.client.command({ query: "DELETE FROM events WHERE distinct_id = 'person 7'" })
  t.match(await move(), { code: 1, err: /rows that .* does not have.*--remove-extra/s })
  t.match(await move('--remove-extra'), { code: 0, out: /980 events/ })
  t.equal(await count(to), 980)
  await to.client.command({ query: "DELETE FROM events WHERE distinct_id = 'person 8'" })
  t.match(await move(), { code: 0, out: /980 events; this run copied 20/ }, 'also when the target remembers its tokens')
  t.equal(await count(to), 980)
})

t.test('what an insert that is under way at --finish leaves in the source is in the target', async (t) => {
  const { from, to, move } = await open(t)
  await store(from, 100)
  t.match(await move(), { code: 0, err: String })
  const slow = from.client.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp)
      SELECT 1, generateUUIDv4(), 'slow', 'u', now64(3) FROM numbers(60) WHERE sleepEachRow(0.2) = 0`,
    clickhouse_settings: { max_block_size: '1' }
  }).then(() => 'stored', () => 'refused')
  const isRunning = "SELECT 1 FROM system.processes WHERE query_kind = 'Insert' AND current_database = currentDatabase()"
  await waitFor(async () => (await queryRows(from.client, isRunning)).length > 0)
  const finished = await move('--finish')
  t.equal(finished.code, 0, finished.err + finished.out)
  t.match(await slow, /stored|refused/)
  t.equal(await count(to), await count(from))
})
