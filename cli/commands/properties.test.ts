import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import t from 'tap'
import { startTestServer, TEST_PASSWORDS } from '../../embedded/clickhouse/testing/start-test-server.ts'
import { createInsertFrames, INSERT_SETTINGS } from '../../pipeline/events/insert/insert-frames.ts'
import { buildEventBlock } from '../../test/support/event-block.ts'
import { encodeFrame } from '../../schema/wire/frame-codec.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { runCaptured, type Captured } from '../testing/run-captured.ts'

const MILLRACE = path.join(import.meta.dirname, '..', 'main.ts')
const ROWS = 400_000

// Filled once: the tests come one after the other, and each leaves no property promoted that the next one promotes.
const server = await startTestServer(t, { owner: 'millrace', database: 'millrace' })
await migrateClickHouse(clickhouseUrl(), {})
await fill()

/** The server takes another port when it is started again. */
function clickhouseUrl (): string {
  return `http://millrace:${encodeURIComponent(TEST_PASSWORDS.owner)}@127.0.0.1:${server.port}/millrace`
}

async function run (args: string[]): Promise<Captured> {
  return await runCaptured(args, { CLICKHOUSE_URL: clickhouseUrl() })
}

async function select (query: string): Promise<string> {
  return (await server.ask(query, { params: { database: 'millrace' } })).text.trim()
}

/** Old events in a few parts. */
async function fill (): Promise<void> {
  for (let part = 0; part < 4; part++) {
    await select(`INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, properties)
      SELECT 1, generateUUIDv4(), 'order', toString(number), toDateTime('2026-03-01') + number % 5000000,
        concat('{"text":"${'x'.repeat(300)}","amount":', toString(number % 100), ',"plan":"', ['free', 'pro'][number % 2 + 1], '"}')
      FROM numbers(${ROWS / 4})`)
  }
}

t.test('promotes while events come in, and ends what a killed promotion and a killed engine left half done', async (t) => {
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  let inserted = 0
  const over = new AbortController()
  const insertSome = async (): Promise<void> => {
    const insertFrames = createInsertFrames({ url: clickhouseUrl(), agent })
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
    env: { ...process.env, NODE_OPTIONS: '', CLICKHOUSE_URL: clickhouseUrl() }, stdio: 'ignore'
  })
  const exited = once(child, 'exit')
  await waitFor(async () => await select("SELECT count() FROM system.columns WHERE table = 'events' AND name = 'p_plan'") === '1')
  child.kill('SIGKILL')
  await exited
  over.abort()
  await inserting
  await server.stop('SIGKILL')
  await server.restart()
  t.equal(await select("SELECT countIf(p_plan != JSONExtractString(properties, 'plan')) FROM events"), '0')
  await insertSome()

  const again = await run(['properties', 'promote', 'plan', '--type', 'String', '--json'])
  const list = await run(['properties', 'list'])

  t.match(again, { code: 0, err: new RegExp(`filling +${ROWS + inserted} events in`) })
  t.match(JSON.parse(again.out), { column: 'p_plan', filled: 1, events: ROWS + inserted, instead_of: "JSONExtractString(properties, 'plan')" })
  t.match(list.out, /^property +column +type +filled +bytes\nplan +p_plan +String +100 % +\d+\n$/)
  t.equal(await select('SELECT p_plan, count() FROM events_with_person GROUP BY p_plan ORDER BY p_plan'),
    `free\t${ROWS / 2}\ngold\t${inserted}\npro\t${ROWS / 2}`)
  t.match(await run(['properties', 'demote', 'plan']), { code: 0 })
})

t.test('demotes also what is just being filled, and says what cannot be', async (t) => {
  const rows = await select('SELECT count() FROM events')
  const unfinished = async (): Promise<string> => await select('SELECT count() FROM system.mutations WHERE NOT is_done')
  await waitFor(async () => await unfinished() === '0')
  await select('SYSTEM STOP MERGES')
  t.teardown(async () => { await select('SYSTEM START MERGES') })

  const promoting = run(['properties', 'promote', 'amount', '--type', 'float64'])
  await waitFor(async () => await unfinished() === '1')
  const demoted = await run(['properties', 'demote', 'amount', '--json'])

  t.match(JSON.parse(demoted.out), { column: 'p_amount' })
  t.match(await promoting, { code: 1 })
  t.equal(await select("SELECT count() FROM system.columns WHERE name = 'p_amount'"), '0')
  t.equal(await select('SELECT count() FROM (SELECT * FROM events_with_person)'), rows)
  t.match(await run(['properties', 'demote', 'amount']), { code: 1, err: /not promoted/ })
  t.match(await run(['properties', 'promote', 'amount', '--type', 'Money']), { code: 2, err: /String, Float64, DateTime, Bool/ })
  t.match(await run(['properties', 'promote', '$browser']), { code: 1, err: /browser/ })
})
