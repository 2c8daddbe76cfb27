import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import t from 'tap'
import { digestPassword } from '../http/authenticate.ts'
import { spawnServer, startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'
import { waitFor } from '../testing/wait-for.ts'

/** Constants are computed in one piece, a minute of them. */
const endless = (salt: number): string => `SELECT ${Array.from({ length: 300 }, (_, i) =>
  `arraySum(arrayMap(x -> arraySum(arrayMap(y -> y * x + ${salt + i}, range(3000))), range(3000)))`).join()}`

/** Processes beside it make everything take longer. */
const slackMs = 500 * Math.max(0, loadavg()[0]! - availableParallelism())

/** The environment of a process that has replaced another one is a new one. */
const readEnvironment = (pid: number): string => readFileSync(`/proc/${pid}/environ`, 'utf8')

t.test('ends an analyst\'s query within five seconds of its limit, whatever it does, and tells everybody why', async (t) => {
  const server = await startTestServer(t)
  await server.ask('CREATE TABLE shop.k (a UInt64) ENGINE MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100')
  const before = readEnvironment(server.pid)
  const startedAt = performance.now()
  const stuck = server.ask(endless(0), { user: 'analyst', params: { max_execution_time: '1' } })
  const others = [
    server.ask('SELECT sleepEachRow(1) FROM numbers(100) SETTINGS max_block_size = 1'),
    server.ask('SELECT count() FROM system.numbers', { user: 'analyst', params: { max_threads: '1' } }),
    server.ask('DESCRIBE (SELECT sleepEachRow(1) FROM numbers(3))')
  ]
  let inserted = 0
  while (readEnvironment(server.pid) === before) {
    const params = { insert_deduplication_token: String(inserted) }
    // The port is closed for a moment, with what the kernel has not handed over yet; all else is an answer.
    const insert = await server.ask('INSERT INTO shop.k FORMAT CSV', { body: String(inserted), params }).catch((error: NodeJS.ErrnoException) => {
      t.match(error.code, /ECONNREFUSED|ECONNRESET/)
    })
    if (insert === undefined) continue
    if (insert.status === 200) inserted++
    else t.match(insert, { code: 236, text: /The server restarts, because a query of user analyst did not end within its limit/ })
  }

  t.ok(performance.now() - startedAt < 6000 + slackMs, `ended after ${Math.round(performance.now() - startedAt)} ms`)
  t.match(await stuck, { code: 159, status: 408 })
  const [owners, analysts, show] = await Promise.all(others)
  for (const answer of [owners, analysts]) t.match(answer, { code: 236, text: /The server restarts, because a query of user analyst/ })
  t.match(show, { status: 200 })
  await waitFor(async () => (await server.ask('SELECT 1')).text === '1\n')
  t.equal((await server.ask('SELECT count() FROM shop.k')).text, `${inserted}\n`, `${inserted} inserts were acknowledged`)
  t.equal((await server.ask("SELECT count() FROM system.processes WHERE user = 'analyst'")).text, '0\n')
  t.match(await server.ask("SELECT query_id FROM system.query_log WHERE exception_code = 159 AND query LIKE 'SELECT arraySum%'"), { text: /^\S+\n$/ })

  const again = await server.ask(endless(0), { user: 'analyst', params: { max_execution_time: '1' } })
  t.match(again, { code: 159, text: /could be ended only by a restart of the server\. It is refused until \d{4}-/ })
  t.match(await server.ask('SELECT 2', { user: 'analyst' }), { text: '2\n' })
})

t.test('is reached with the logins of its standard input after that, too', async (t) => {
  const dataDir = t.testdir()
  const child = spawnServer(dataDir, {
    args: ['--logins-on-stdin'], input: JSON.stringify(Object.fromEntries(
      Object.entries(TEST_PASSWORDS).map(([user, password]) => [user, digestPassword(password)])))
  })
  t.teardown(async () => {
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  })
  const lines: string[] = []
  child.stdout!.on('data', (chunk: Buffer) => lines.push(...chunk.toString().trim().split('\n')))
  const listening = (): string[] => lines.filter((line) => line.includes('chdb-server is listening'))
  await waitFor(() => listening().length === 1)
  const { port } = JSON.parse(listening()[0]!)
  const ask = async (user: 'analyst' | 'owner', query: string): Promise<string> => await (await fetch(`http://127.0.0.1:${port}/?max_execution_time=1`, {
    method: 'POST', body: query, headers: { 'x-clickhouse-user': user, 'x-clickhouse-key': TEST_PASSWORDS[user] }
  })).text()
  await ask('analyst', endless(1000))
  await waitFor(() => listening().length === 2)

  t.equal(JSON.parse(listening()[1]!).port, port)
  t.same(await Promise.all([ask('owner', 'SELECT 1'), ask('analyst', 'SELECT 2')]), ['1\n', '2\n'])
  t.match(lines.join('\n'), /"queryId":"[^"]+","query":"SELECT arraySum.*a query did not end within its limit of time/)
})

t.test('a result that flows has an end, too', async (t) => {
  const server = await startTestServer(t)
  const startedAt = performance.now()
  const query = 'SELECT arrayMap(x -> x + number, range(400000)) FROM numbers(10000)'
  await server.ask(query, { user: 'analyst', params: { max_execution_time: '1' } }).catch((error: unknown) => t.match(error, { code: 'ECONNRESET' }))
  await waitFor(async () => (await server.ask("SELECT count() FROM system.processes WHERE user = 'analyst'")).text === '0\n')

  t.ok(performance.now() - startedAt < 6000 + slackMs, `ended after ${Math.round(performance.now() - startedAt)} ms`)
})

// Idle sockets would keep the file from ending by itself.
t.end()
