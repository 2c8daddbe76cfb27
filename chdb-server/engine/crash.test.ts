import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { spoolFolders } from './body-spool.ts'
import { spawnServer, startTestServer, TEST_PASSWORDS, type TestServer } from '../testing/start-test-server.ts'

const PINNED = { async_insert: '0', input_format_parallel_parsing: '0', max_insert_block_size: '2000000' }

async function createTables (server: TestServer): Promise<void> {
  const window = 'SETTINGS non_replicated_deduplication_window = 1000'
  await server.ask(`CREATE TABLE shop.k (a UInt64, b String) ENGINE MergeTree PARTITION BY a % 3 ORDER BY a ${window}`)
  await server.ask(`CREATE TABLE shop.sums (c UInt8, n UInt64) ENGINE SummingMergeTree ORDER BY c ${window}`)
  await server.ask('CREATE MATERIALIZED VIEW shop.v TO shop.sums AS SELECT a % 3 AS c, count() AS n FROM shop.k GROUP BY c')
}

t.test('keeps what it acknowledged, and stores each token once, through kill -9 at any moment', async (t) => {
  const server = await startTestServer(t)
  await createTables(server)
  const rows = 20_000
  let acknowledged = 0
  for (let kill = 0; kill < 4; kill++) {
    for (let batch = 0; batch < 2; batch++) {
      const id = kill * 2 + batch
      const body = Array.from({ length: rows }, (_, i) => `${id * rows + i},${'x'.repeat(50)}`).join('\n')
      const insert = async (): Promise<boolean> => {
        const params = { ...PINNED, insert_deduplication_token: `batch-${id}` }
        return (await server.ask('INSERT INTO shop.k FORMAT CSV', { body, params })).status === 200
      }
      const first = insert().catch(() => false)
      if (batch === 1) {
        await pauseMs(5 + kill * 12)
        await server.stop('SIGKILL')
        await server.restart()
      }
      const stored = await first || await insert()
      acknowledged += stored ? rows : 0
      if (batch === 1) await insert()
    }
  }

  const answer = await server.ask('SELECT count(), uniqExact(a), (SELECT sum(n) FROM shop.sums) FROM shop.k')
  t.equal(acknowledged, 8 * rows)
  t.equal(answer.text, `${acknowledged}\t${acknowledged}\t${acknowledged}\n`)
})

t.test('ends when the engine has met a fatal error, instead of answering nothing any more', async (t) => {
  const server = await startTestServer(t)
  await createTables(server)
  await server.ask('INSERT INTO shop.k FORMAT CSV', { body: '1,x' })
  // A shape that crosses itself so often that an assertion of the engine fails.
  const ring = 'arrayMap(i -> (toFloat64(i % 90), toFloat64(i * 7 % 80)), range(2500))'

  await t.rejects(server.ask(`SELECT polygonsSymDifferenceCartesian(ring, ring) FROM (SELECT ${ring} AS ring)`))
  await server.restart()
  t.equal((await server.ask('SELECT a FROM shop.k')).text, '1\n')
})

t.test('empties the spool that a killed process left', async (t) => {
  const server = await startTestServer(t)
  await server.stop('SIGKILL')
  const folders = spoolFolders(server.dataDir)
  for (const folder of folders) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, 'body-999'), 'left behind')
  }
  await server.restart()

  t.notOk(folders.some((folder) => existsSync(path.join(folder, 'body-999'))))
})

t.test('lets a running insert end on SIGTERM, no query that has no end, and is gone', async (t) => {
  const server = await startTestServer(t)
  await createTables(server)
  // Few enough for the two seconds that it has, also on a busy machine.
  const body = Array.from({ length: 50_000 }, (_, i) => `${i},x`).join('\n')
  const insert = server.ask('INSERT INTO shop.k FORMAT CSV', { body, params: PINNED })
  const read = server.ask('SELECT count() FROM system.numbers').catch((error: unknown) => error)
  await waitFor(
    () => readdirSync(spoolFolders(server.dataDir)[1]).some((name) => name.startsWith('body-')), { everyMs: 1 })
  await pauseMs(50)

  const exit = await server.stop('SIGTERM')

  t.equal(exit, 0, 'the query, which has no end, does not hold it')
  t.match(await insert, { status: 200 })
  t.match(await read, { code: /236|ECONNRESET/ })
  t.notOk(spoolFolders(server.dataDir).some(existsSync))
  await server.restart()
  t.equal((await server.ask('SELECT count() FROM shop.k')).text, '50000\n')
})

t.test('is gone although a client neither reads nor leaves', async (t) => {
  const server = await startTestServer(t)
  const socket = net.connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET /?query=SELECT+*+FROM+system.numbers HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: owner\r\n' +
    `X-ClickHouse-Key: ${TEST_PASSWORDS.owner}\r\n\r\n`)
  await once(socket, 'readable')

  t.equal(await server.stop('SIGTERM'), 0)
  socket.destroy()
})

t.test('says that another process holds the data directory, and leaves that one alone', async (t) => {
  const server = await startTestServer(t)

  const { code, errors } = await failToStart(server.dataDir)

  t.not(code, 0)
  t.match(errors, new RegExp(`the ClickHouse data directory .* is in use by process ${server.pid}`))
  t.equal((await server.ask("SELECT repeat('x', 3)")).text, 'xxx\n')
})

t.test('says that the port is in use', async (t) => {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  t.after(() => server.close())
  const dataDir = t.testdir()

  const { code, errors } = await failToStart(dataDir, ['--port', String(port)])

  t.not(code, 0)
  t.match(errors, new RegExp(`port ${port} is in use.*--port`))
})

interface FailedStart {
  code: number | null
  errors: string
}

async function failToStart (dataDir: string, args: string[] = []): Promise<FailedStart> {
  const child = spawnServer(dataDir, { args })
  let errors = ''
  child.stderr!.on('data', (chunk: Buffer) => { errors += chunk.toString() })
  const [code] = await once(child, 'exit') as [number | null]
  return { code, errors }
}

async function pauseMs (ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}
