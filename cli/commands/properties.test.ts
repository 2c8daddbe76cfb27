import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import t from 'tap'
import { startTestFront, TEST_PASSWORDS, type TestFront } from '../../deploy/local/clickhouse-front/start-test-front.ts'
import { createInsertFrames } from '../../pipeline/writer/insert/insert-frames.ts'
import { INSERT_SETTINGS } from '../../pipeline/writer/insert/insert-settings.ts'
import { buildEventBlock } from '../../platform/native-block/build-event-block.ts'
import { encodeFrame } from '../../platform/native-block/frame-codec.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { runCli } from '../run-cli.ts'

const MILLRACE = path.join(import.meta.dirname, '..', 'main.ts')
const ROWS = 400_000

const urlOf = (front: TestFront): string => `http://millrace:${encodeURIComponent(TEST_PASSWORDS.millrace)}@127.0.0.1:${front.port}/millrace`

async function run (front: TestFront, args: string[]): Promise<{ code: number, out: string, err: string }> {
  const output = { out: '', err: '' }
  const code = await runCli(args, {
    env: { CLICKHOUSE_URL: urlOf(front) },
    stdout: { write: (text) => { output.out += text } },
    stderr: { write: (text) => { output.err += text } },
    now: Date.now
  })
  return { code, ...output }
}

const select = async (front: TestFront, query: string): Promise<string> =>
  (await front.ask(query, { params: { database: 'millrace' } })).text.trim()

/** Old events in a few parts. */
async function fill (front: TestFront): Promise<void> {
  for (let part = 0; part < 4; part++) {
    await select(front, `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, properties)
      SELECT 1, generateUUIDv4(), 'order', toString(number), toDateTime('2026-03-01') + number % 5000000,
        concat('{"text":"${'x'.repeat(300)}","amount":', toString(number % 100), ',"plan":"', ['free', 'pro'][number % 2 + 1], '"}')
      FROM numbers(${ROWS / 4})`)
  }
}

t.test('promotes while events come in, and ends what a killed promotion and a killed engine left half done', async (t) => {
  const front = await startTestFront(t)
  await migrateClickHouse(urlOf(front), {})
  await fill(front)
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  let inserted = 0
  const over = new AbortController()
  const insertSome = async (): Promise<void> => {
    const insertFrames = createInsertFrames({ url: urlOf(front), agent })
    const event = {
      project_id: 1, uuid: crypto.randomUUID(), event: 'order', distinct_id: 'bob', timestamp: Date.now(),
      properties: '{"plan":"gold"}'
    }
    await insertFrames({
      frames: [await encodeFrame(buildEventBlock([event]))], token: `t:${inserted}`, settings: INSERT_SETTINGS[1]!
    })
    inserted++
  }
  const inserting = (async () => { while (!over.signal.aborted) await insertSome() })()

  // The process that promotes dies as soon as there is a column; what it ordered goes on without it, or not at all.
  const child = spawn(process.execPath, [MILLRACE, 'properties', 'promote', 'plan'], {
    env: { ...process.env, NODE_OPTIONS: '', CLICKHOUSE_URL: urlOf(front) }, stdio: 'ignore'
  })
  const exited = once(child, 'exit')
  await waitFor(async () => await select(front, "SELECT count() FROM system.columns WHERE table = 'events' AND name = 'p_plan'") === '1')
  child.kill('SIGKILL')
  await exited
  over.abort()
  await inserting
  await front.stop('SIGKILL')
  await front.restart()
  t.equal(await select(front, "SELECT countIf(p_plan != JSONExtractString(properties, 'plan')) FROM events"), '0')
  await insertSome()

  const again = await run(front, ['properties', 'promote', 'plan', '--type', 'String', '--json'])
  const list = await run(front, ['properties', 'list'])

  t.match(again, { code: 0, err: new RegExp(`filling +${ROWS + inserted} events in`) })
  t.match(JSON.parse(again.out), { column: 'p_plan', filled: 1, events: ROWS + inserted, instead_of: "JSONExtractString(properties, 'plan')" })
  t.match(list.out, /^property +column +type +filled +bytes\nplan +p_plan +String +100 % +\d+\n$/)
  t.equal(await select(front, 'SELECT p_plan, count() FROM events_with_person GROUP BY p_plan ORDER BY p_plan'),
    `free\t${ROWS / 2}\ngold\t${inserted}\npro\t${ROWS / 2}`)
})

t.test('demotes also what is just being filled, and says what cannot be', async (t) => {
  const front = await startTestFront(t)
  await migrateClickHouse(urlOf(front), {})
  await fill(front)
  await select(front, 'SYSTEM STOP MERGES')

  const promoting = run(front, ['properties', 'promote', 'amount', '--type', 'float64'])
  await waitFor(async () => await select(front, 'SELECT count() FROM system.mutations WHERE NOT is_done') === '1')
  const demoted = await run(front, ['properties', 'demote', 'amount', '--json'])

  t.match(JSON.parse(demoted.out), { column: 'p_amount' })
  t.match(await promoting, { code: 1 })
  t.equal(await select(front, "SELECT count() FROM system.columns WHERE name = 'p_amount'"), '0')
  t.equal(await select(front, 'SELECT count() FROM (SELECT * FROM events_with_person)'), String(ROWS))
  t.match(await run(front, ['properties', 'demote', 'amount']), { code: 1, err: /not promoted/ })
  t.match(await run(front, ['properties', 'promote', 'amount', '--type', 'Money']), { code: 2, err: /String, Float64, DateTime, Bool/ })
  t.match(await run(front, ['properties', 'promote', '$browser']), { code: 1, err: /browser/ })
})

t.test('suggests what costs analysts most, and what they might name instead', async (t) => {
  const front = await startTestFront(t)
  await migrateClickHouse(urlOf(front), {})
  await fill(front)
  await select(front, "INSERT INTO event_property_counts (project_id, event, kind, property, type, count) VALUES (1, 'order', 'event', 'amount', 'Numeric', 5)")
  const asAnalyst = async (query: string): Promise<string> =>
    (await front.ask(query, { user: 'analyst', params: { database: 'millrace' } })).text
  const suggest = async (): Promise<Array<Record<string, unknown>>> =>
    JSON.parse((await run(front, ['properties', 'suggest', '--json'])).out) as Array<Record<string, unknown>>
  t.same(await suggest(), [])

  for (let i = 0; i < 3; i++) await asAnalyst("SELECT count() FROM events WHERE JSONExtractString(properties, 'plan') = 'pro'")
  await asAnalyst("SELECT count() FROM events WHERE JSONExtractFloat(properties, 'amount') > 5")
  await asAnalyst("SELECT JSONExtractString(properties, '$browser') FROM events LIMIT 1")
  const before = await suggest()
  await run(front, ['properties', 'promote', 'plan'])
  const after = await suggest()

  t.match(before, [
    { property: 'plan', queries: 3, do: 'npx millrace properties promote plan --type String' },
    { property: 'amount', queries: 1, do: 'npx millrace properties promote amount --type Float64' },
    { property: '$browser', queries: 1, do: 'use the column browser' }
  ])
  const [plan] = before as Array<{ seconds: number, seconds_saved: number, bytes: number }>
  t.ok(plan!.seconds_saved > plan!.seconds * 0.8 && plan!.seconds_saved < plan!.seconds)
  t.ok(plan!.bytes > 0 && plan!.bytes < 10 * ROWS)
  t.match(after[0], { property: 'plan', do: 'use the column p_plan', bytes: 0 })
  t.match((await run(front, ['properties', 'suggest', '--limit', '1'])).out, /^property +queries +seconds +saves about +disk about +do\nplan .*\n$/)
})
