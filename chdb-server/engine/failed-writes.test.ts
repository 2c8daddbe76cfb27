import { once } from 'node:events'
import { readdirSync, rmSync, truncateSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { LIMITABLE, limitFiles, startTestServer, TEST_PASSWORDS, type TestServer } from '../testing/start-test-server.ts'

/** Bytes: more than any file before the write that is to fail. */
const LONGEST_FILE = 400_000
const ROWS = 1000
const ROW_BYTES = 250

const FAILED = "SELECT sum(value) FROM system.events WHERE event = 'WriteBufferFromFileDescriptorWriteFailed'"

/** Rows take their own length in the files of the table, and next to nothing on their way there. */
async function createTables (server: TestServer, settings = ''): Promise<void> {
  const window = `SETTINGS non_replicated_deduplication_window = 1000${settings}`
  await server.ask(`CREATE TABLE shop.k (a UInt64, b String CODEC(NONE)) ENGINE MergeTree ORDER BY a ${window}`)
  await server.ask(`CREATE TABLE shop.sums (c UInt8, n UInt64) ENGINE SummingMergeTree ORDER BY c ${window}`)
  await server.ask('CREATE MATERIALIZED VIEW shop.v TO shop.sums AS SELECT 1 AS c, count() AS n FROM shop.k GROUP BY c')
}

async function insert (server: TestServer, { batch, rows = ROWS }: { batch: number, rows?: number }): Promise<number> {
  const lines = Array.from({ length: rows }, (_, row) => `${batch * 1_000_000 + row},${'x'.repeat(ROW_BYTES)}\n`)
  const { status } = await server.ask('INSERT INTO shop.k FORMAT CSV', {
    body: gzipSync(lines.join('')),
    headers: { 'content-encoding': 'gzip' },
    params: { insert_deduplication_token: `batch-${batch}` }
  })
  return status
}

async function count (server: TestServer): Promise<string> {
  const { text } = await server.ask('SELECT count(), uniqExact(a), min(length(b)), (SELECT sum(n) FROM shop.sums) FROM shop.k')
  return text.trim()
}

function findFile (server: TestServer, name: string): string | undefined {
  const store = path.join(server.dataDir, 'clickhouse', 'store')
  const found = readdirSync(store, { recursive: true }).find((entry) => path.basename(String(entry)) === name)
  return found === undefined ? undefined : path.join(store, String(found))
}

function hasEnded (pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

t.test('an insert that could not be written is not answered, and stored once when it is repeated', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await createTables(server)
  t.equal(await insert(server, { batch: 1 }), 200)
  limitFiles(server, LONGEST_FILE)

  await t.rejects(insert(server, { batch: 2, rows: 3 * ROWS }), { code: 'ECONNRESET' })
  t.equal(await server.stop('SIGTERM'), 'SIGKILL')
  await server.restart()

  // The view may be ahead of its table until then, as after any kill.
  t.equal((await server.ask('SELECT count(), uniqExact(a) FROM shop.k')).text, '1000\t1000\n')
  t.equal((await server.ask('SELECT name FROM system.detached_parts')).text, '', 'nobody is told of damage')
  t.equal(await insert(server, { batch: 2, rows: 3 * ROWS }), 200)
  t.equal(await insert(server, { batch: 2, rows: 3 * ROWS }), 200)
  t.equal(await count(server), '4000\t4000\t250\t4000')
})

t.test('a merge that could not be written loses nothing: its sources are used again', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await createTables(server)
  for (const batch of [1, 2, 3, 4]) t.equal(await insert(server, { batch }), 200)
  limitFiles(server, LONGEST_FILE)

  await t.rejects(server.ask('OPTIMIZE TABLE shop.k FINAL'), { code: 'ECONNRESET' })
  t.equal(await server.stop('SIGTERM'), 'SIGKILL')
  t.ok(findFile(server, 'all_1_4_1'), 'its result had taken their place')
  await server.restart()

  t.equal(await count(server), '4000\t4000\t250\t4000')
  t.equal((await server.ask('SELECT name FROM system.detached_parts')).text, '', 'nothing is left of it')
  await server.ask('OPTIMIZE TABLE shop.k FINAL')
  t.equal(await count(server), '4000\t4000\t250\t4000')
})

t.test('a damaged part stays where it is seen when one of its sources is gone', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await createTables(server)
  for (const batch of [1, 2, 3, 4]) t.equal(await insert(server, { batch }), 200)
  limitFiles(server, LONGEST_FILE)
  await t.rejects(server.ask('OPTIMIZE TABLE shop.k FINAL'), { code: 'ECONNRESET' })
  await server.stop('SIGTERM')
  rmSync(findFile(server, 'all_2_2_0')!, { recursive: true })
  // As after a kill: nobody noted when it was written.
  rmSync(path.join(server.dataDir, 'clickhouse', 'server-failed-write'))
  await server.restart()

  t.equal((await server.ask('SELECT reason, name FROM system.detached_parts')).text, 'broken-on-start\tbroken-on-start_all_1_4_1\n')
})

t.test('the result of a merge is removed when one of its sources was an insert that was taken back', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await createTables(server)
  for (const batch of [1, 2, 3, 4]) t.equal(await insert(server, { batch }), 200)
  limitFiles(server, LONGEST_FILE)
  await t.rejects(server.ask('OPTIMIZE TABLE shop.k FINAL'), { code: 'ECONNRESET' })
  await server.stop('SIGTERM')
  rmSync(findFile(server, 'all_2_2_0')!, { recursive: true })
  await server.restart()

  t.equal((await server.ask('SELECT name FROM system.detached_parts')).text, '')
  t.equal((await server.ask('SELECT count() FROM shop.k')).text, '3000\n')
})

t.test('a damaged part stays where it is seen when other rows get the numbers of its blocks', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await createTables(server)
  for (const batch of [1, 2]) t.equal(await insert(server, { batch }), 200)
  await server.ask('OPTIMIZE TABLE shop.k FINAL')
  await server.stop('SIGKILL')
  for (const source of ['all_1_1_0', 'all_2_2_0']) rmSync(findFile(server, source)!, { recursive: true })
  truncateSync(path.join(findFile(server, 'all_1_2_1')!, 'data.bin'), 100)
  await server.restart()
  for (const batch of [3, 4]) t.equal(await insert(server, { batch }), 200)
  t.ok(findFile(server, 'all_2_2_0'), 'the numbers are given again')
  await server.stop('SIGKILL')
  await server.restart()

  t.equal((await server.ask('SELECT reason, name FROM system.detached_parts')).text, 'broken-on-start\tbroken-on-start_all_1_2_1\n')
})

t.test('a merge is noticed that no statement waits for', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await createTables(server, ', min_age_to_force_merge_seconds = 1')
  await server.ask('SYSTEM STOP MERGES')
  for (const batch of [1, 2, 3, 4]) t.equal(await insert(server, { batch }), 200)
  limitFiles(server, LONGEST_FILE)
  // The parts are old enough: the engine may end before it has answered.
  await server.ask('SYSTEM START MERGES').catch(() => {})

  await waitFor(() => hasEnded(server.pid))
  await server.restart()
  t.equal(await count(server), '4000\t4000\t250\t4000')
})

t.test('a reader that goes away in the middle of its rows is no failed write', async (t) => {
  const server = await startTestServer(t)
  for (let reader = 0; reader < 8; reader++) {
    const request = http.get({
      host: '127.0.0.1',
      port: server.port,
      path: `/?query=${encodeURIComponent('SELECT number, toString(number) FROM system.numbers')}`,
      headers: { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner }
    })
    const [response] = await once(request, 'response') as [http.IncomingMessage]
    await once(response, 'data')
    response.destroy()
  }

  const running = "SELECT count() FROM system.processes WHERE query LIKE '%system.numbers%' AND query NOT LIKE '%processes%'"
  await waitFor(async () => (await server.ask(running)).text === '0\n')
  t.equal((await server.ask(FAILED)).text, '0\n')
})

t.test('the engine leaves room on the disk', async (t) => {
  const server = await startTestServer(t)
  const { text } = await server.ask('SELECT keep_free_space >= 16777216 AND keep_free_space <= 1073741824 FROM system.disks')
  t.equal(text, '1\n')
})
