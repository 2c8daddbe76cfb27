/** A move beside live traffic: the real tiers store in the source, are stopped, and go on in the target. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createFirstProject } from '../../embedded/supervisor/create-first-project.ts'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { sampleUuids } from '../../schema/move/move-statements.ts'
import { startTestServer, TEST_PASSWORDS } from 'chdb-server/testing'
import { startTierProcess } from '../../test/support/start-tier-process.ts'
import { startTestNats, startTestPipeline } from '../../test/support/test-processes.ts'
import { createTestClickHouse, createTestPostgres, type TestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { FILE_TIMEOUT_MS } from '../../test/test-pool.ts'
import { matchCaptured, runCaptured } from '../testing/run-captured.ts'

t.setTimeout(FILE_TIMEOUT_MS)

const PROJECT_KEY = 'phc_move_project_key'
const SELDOM = { everyMs: 250 }

/** A source that has more than one insert carries. */
const STORED = 450_000

async function readUuids ({ client }: TestClickHouse): Promise<string[]> {
  const rows = await queryRows<{ uuid: string }>(client,
    "SELECT toString(uuid) AS uuid FROM events WHERE event = 'live' SETTINGS final = 0")
  return rows.map(({ uuid }) => uuid).sort()
}

/** Sends batches, each of them twice, until stopped; adds the uuids that ingest confirmed. */
function startSending (t: Test, ingestUrl: string): { acknowledged: string[], stop: () => Promise<void> } {
  const acknowledged: string[] = []
  const stopped = new AbortController()
  const sending = (async () => {
    while (!stopped.signal.aborted) {
      const batch = Array.from({ length: 20 }, (_, index) => ({
        event: 'live', uuid: randomUUID(), distinct_id: `person ${index}`, properties: { index, $set: { index } }
      }))
      // The second time may meet the target.
      for (let times = 0; times < 2; times++) {
        const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
        const response = await fetch(`${ingestUrl}/batch/`, {
          method: 'POST', headers: { 'content-type': 'application/json' }, body
        })
        if (response.status !== 200) throw new Error(`ingest answered ${response.status}`)
        await response.arrayBuffer()
      }
      acknowledged.push(...batch.map(({ uuid }) => uuid))
      await delay(50)
    }
  })()
  const stop = async (): Promise<void> => {
    stopped.abort()
    await sending
  }
  t.teardown(async () => { await stop().catch(() => {}) })
  return { acknowledged, stop }
}

t.test('kill -9 at every phase, live events, and the switch: none is lost and none is stored twice', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-move-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const [from, to, nats, postgres] = [
    await createTestClickHouse(t), await createTestClickHouse(t), await startTestNats(t), await createTestPostgres(t)
  ]
  await createFirstProject({
    databaseUrl: postgres.url, projectApiKey: PROJECT_KEY, personalApiKey: 'phx_move_personal_key'
  })
  await from.client.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties)
      SELECT 1, generateUUIDv4(), concat('old ', toString(number % 3)), toString(number % 1000),
        now64(3) - toIntervalHour(number % 48), now64(3) - 600, now64(3) - 600, concat('{"n":', toString(number), '}')
      FROM numbers(${STORED}) SETTINGS max_insert_block_size = ${STORED}, min_insert_block_size_rows = ${STORED}`
  })
  const stores = { natsUrl: nats.url, databaseUrl: postgres.url }
  const first = await startTestPipeline(t, { ...stores, clickhouseUrl: from.url })
  const ingest = await startTierProcess(t, {
    tier: 'ingest', env: { NATS_URL: nats.url, DATABASE_URL: postgres.url, MILLRACE_DATA_DIR: dataDir }
  })

  const { acknowledged, stop } = startSending(t, ingest.url)

  const args = ['move', 'clickhouse', '--to', to.url]
  const env = { CLICKHOUSE_URL: from.url, NATS_URL: nats.url, DATABASE_URL: postgres.url }
  /** Kills the command when it has said this. */
  const kill = async (more: readonly string[], said: RegExp): Promise<void> => {
    const child = spawn(process.execPath, [path.join(import.meta.dirname, '..', 'main.ts'), ...args, ...more], {
      stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH, ...env }
    })
    let text = ''
    child.stderr.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      if (said.test(text)) child.kill('SIGKILL')
    })
    await once(child, 'close')
    t.match(text, said)
  }
  await waitFor(() => acknowledged.length > 200, SELDOM)
  await kill([], /\d+ events copied/)
  const copied = await runCaptured(args, env)
  t.equal(copied.code, 0, copied.err + copied.out)
  t.ok((await readUuids(from)).length > 0, 'events go on being stored')
  await kill(['--finish'], /closing the source/)
  const sent = acknowledged.length
  await waitFor(() => acknowledged.length > sent + 100, SELDOM)
  const finished = await runCaptured([...args, '--finish'], env)
  t.equal(finished.code, 0, finished.err + finished.out)
  t.match(finished.out, /Both sides are equal, and .* is closed: events wait in the stream/)
  const closed = await readUuids(from)
  await waitFor(() => acknowledged.length > sent + 300, SELDOM)
  t.same(await readUuids(from), closed, 'the source takes nothing more, while ingest answers 200')

  await first.kill('SIGKILL')
  await startTestPipeline(t, { ...stores, clickhouseUrl: to.url })
  await waitFor(() => acknowledged.length > sent + 600, SELDOM)
  await stop()
  const wanted = acknowledged.toSorted()
  await waitFor(async () => (await readUuids(to)).length >= wanted.length, SELDOM)
  t.same(await readUuids(to), wanted, 'lost 0, twice 0')
  const count = async () => await queryRows<{ n: number, views: number }>(to.client,
    'SELECT toFloat64((SELECT count() FROM events SETTINGS final = 0)) AS n, toFloat64((SELECT sum(volume) FROM event_volumes)) AS views')
  // An insert shows its rows a moment before those of its views.
  await waitFor(async () => (await count()).some(({ views }) => views >= STORED + wanted.length), SELDOM)
  t.same(await count(), [{ n: STORED + wanted.length, views: STORED + wanted.length }], 'the views count each event once')

  const audit = await runCaptured(['audit', '--from', new Date(Date.now() - 300_000).toISOString(), '--project', '1'],
    { ...env, CLICKHOUSE_URL: to.url })
  t.equal(audit.code, 0, audit.out + audit.err)
  matchCaptured(t, await runCaptured(args, env), { code: 1, err: /was closed by --finish/ }, 'a move too many changes nothing')
  matchCaptured(t, await runCaptured([...args, '--reopen'], env), { code: 1, err: /the pipeline already stores events there/ })

  const back = ['move', 'clickhouse', '--to', from.url]
  const returned = await runCaptured([...back, '--finish'], { ...env, CLICKHOUSE_URL: to.url })
  t.equal(returned.code, 0, returned.err + returned.out)
  t.same(await readUuids(from), wanted, 'the way back is the same command')
})

t.test('a source whose target was lost for good is opened again, and goes on without a loss', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-move-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const [from, nats, postgres] = [await createTestClickHouse(t), await startTestNats(t), await createTestPostgres(t)]
  const target = await startTestServer(t, { owner: 'millrace', database: 'millrace' })
  const to = `http://millrace:${encodeURIComponent(TEST_PASSWORDS.owner)}@127.0.0.1:${target.port}/millrace`
  await createFirstProject({ databaseUrl: postgres.url, projectApiKey: PROJECT_KEY, personalApiKey: 'phx_move_personal_key' })
  await startTestPipeline(t, { natsUrl: nats.url, databaseUrl: postgres.url, clickhouseUrl: from.url })
  const ingest = await startTierProcess(t, {
    tier: 'ingest', env: { NATS_URL: nats.url, DATABASE_URL: postgres.url, MILLRACE_DATA_DIR: dataDir }
  })
  const { acknowledged, stop } = startSending(t, ingest.url)
  const move = async (...more: string[]) =>
    await runCaptured(['move', 'clickhouse', '--to', to, ...more], { CLICKHOUSE_URL: from.url, NATS_URL: nats.url })

  await waitFor(() => acknowledged.length > 100, SELDOM)
  const finished = await move('--migrate', '--finish')
  t.equal(finished.code, 0, finished.err + finished.out)
  const closed = await readUuids(from)
  const sent = acknowledged.length
  await waitFor(() => acknowledged.length > sent + 100, SELDOM)
  t.match(await move('--reopen', '--target-lost'), { code: 1, err: /millrace answers, so it is not lost: repeat the command without --target-lost/ })
  await target.stop('SIGKILL')
  t.match(await move('--reopen'), { code: 1, err: /cannot be read.* add --target-lost/ })
  t.same(await readUuids(from), closed, 'both left the source closed')

  t.match(await move('--reopen', '--target-lost'), { code: 0, out: /is open: events are stored there/ })
  const waited = acknowledged.length
  await waitFor(() => acknowledged.length > waited + 100, SELDOM)
  await stop()
  const wanted = acknowledged.toSorted()
  await waitFor(async () => (await readUuids(from)).length >= wanted.length, SELDOM)
  t.same(await readUuids(from), wanted, 'lost 0, twice 0')
  const countViews = async () =>
    await queryRows<{ views: number }>(from.client, 'SELECT toFloat64(sum(volume)) AS views FROM event_volumes')
  await waitFor(async () => (await countViews()).some(({ views }) => views >= wanted.length), SELDOM)
  t.same(await countViews(), [{ views: wanted.length }])
})

t.test('the sample of a target fits into little memory, however many events there are', async (t) => {
  const { client } = await createTestClickHouse(t)
  await client.command({ query: 'DROP TABLE events SYNC' })
  await client.command({ query: 'CREATE VIEW events AS SELECT generateUUIDv4() AS uuid FROM numbers(4000000)' })
  const ask = async (query: string): Promise<{ uuid: string }[]> => await queryRows(client, query, {}, { max_memory_usage: '100000000' })
  t.equal((await ask(sampleUuids(200))).length, 200)
  await t.rejects(ask('SELECT DISTINCT toString(uuid) AS uuid FROM events ORDER BY cityHash64(uuid) LIMIT 200'), /MEMORY_LIMIT_EXCEEDED|memory limit/i, 'every uuid does not fit')
})
