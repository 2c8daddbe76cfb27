import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'
import { waitFor } from '../testing/wait-for.ts'

const server = await startTestServer(t)

/** DROP waits for the end of every query that uses the table, and meanwhile keeps a core busy. */
async function drop (table: string): Promise<string> {
  const dropped = server.ask(`DROP TABLE shop.${table} SYNC`).then(({ status }) => `answered ${status}`, String)
  return await Promise.race([dropped, pause(10_000, 'still in use after ten seconds', { ref: false })])
}

/** Four sessions of the owner. The one unused for longest is next: no two queries below share one. */
async function openSessions (): Promise<void> {
  await Promise.all(Array.from({ length: 4 }, async () => await server.ask('SELECT sleep(0.3)')))
}

/** Begins to read rows without end, and goes away. */
async function leave (query: string): Promise<void> {
  const headers = { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner }
  const request = http.get({ host: '127.0.0.1', port: server.port, path: `/?query=${encodeURIComponent(query)}`, headers })
  const [response] = await once(request, 'response') as [http.IncomingMessage]
  await once(response, 'data')
  response.destroy()
}

const LONG = 'numbers(1000000) AS b, numbers(1000000) AS c'

/** By what happened to the query: what makes it happen on a table, and resolves to the error's code. */
const FAILURES: Record<string, (table: string) => Promise<number>> = {
  'of the owner that fails while it runs': async (table) => (await server.ask(`SELECT throwIf(a >= 0) FROM shop.${table}`)).code,
  'of an analyst that fails while it runs': async (table) =>
    (await server.ask(`SELECT throwIf(a >= 0) FROM shop.${table}`, { user: 'analyst' })).code,
  'that fails with a set of its rows': async (table) =>
    (await server.ask(`SELECT throwIf(1) WHERE 1 IN (SELECT a FROM shop.${table})`)).code,
  'that gives too many rows': async (table) =>
    (await server.ask(`SELECT * FROM shop.${table}, ${LONG}`, { params: { max_result_rows: '1000' } })).code,
  'of an analyst that takes too long': async (table) =>
    (await server.ask(`SELECT count(b.number + c.number) FROM shop.${table}, ${LONG}`, { user: 'analyst', params: { max_execution_time: '1' } })).code,
  'that is killed': async (table) => {
    const killed = server.ask(`SELECT count(b.number + c.number) FROM shop.${table}, ${LONG}`, { params: { query_id: 'killed' } })
    await waitFor(async () => (await server.ask("SELECT count() FROM system.processes WHERE query_id = 'killed'")).text === '1\n')
    await server.ask("KILL QUERY WHERE query_id = 'killed'")
    return (await killed).code
  },
  'whose database is dropped meanwhile': async (table) => {
    await server.ask('CREATE DATABASE gone')
    const failed = server.ask(`SELECT throwIf(sleepEachRow(0.1) = 0) FROM shop.${table}`, { params: { database: 'gone' } })
    await waitFor(async () => (await server.ask("SELECT count() FROM system.processes WHERE current_database = 'gone'")).text === '1\n')
    await server.ask('DROP DATABASE gone')
    return (await failed).code
  },
  'whose client goes away': async (table) => {
    const query = `SELECT * FROM shop.${table}, ${LONG}`
    await leave(query)
    await waitFor(async () => (await server.ask(`SELECT count() FROM system.processes WHERE query = '${query}'`)).text === '0\n')
    return 394
  }
}

for (const [which, fail] of Object.entries(FAILURES)) {
  t.test(`a table can be dropped after a query ${which}`, async (t) => {
    const table = `t${Object.keys(FAILURES).indexOf(which)}`
    await server.ask(`CREATE TABLE shop.${table} (a UInt64) ENGINE MergeTree ORDER BY a`)
    await server.ask(`INSERT INTO shop.${table} SELECT number FROM numbers(20)`)
    await openSessions()
    t.not(await fail(table), 0)

    t.equal(await drop(table), 'answered 200')
    t.equal((await server.ask('SELECT count() FROM system.dropped_tables')).text, '0\n')
  })
}

// Idle sockets would keep the file from ending by itself.
t.end()
