import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../test/faults/system/tcp-fault-proxy.ts'
import { connectPostgres, type Sql } from './connect-postgres.ts'

interface BreakablePool {
  sql: Sql
  proxy: TcpFaultProxy
  breakIt: () => Promise<void>
  /** Waits until the server works on a `pg_sleep`. */
  untilAsleep: () => Promise<void>
}

/** A pool of one connection, which can be broken. */
async function startPool (t: Test): Promise<BreakablePool> {
  const { url, sql: direct } = await createTestPostgres(t)
  await direct`CREATE TABLE notes (note text)`
  const proxy = await startTcpFaultProxy({ port: Number(new URL(url).port) })
  const through = new URL(url)
  through.port = String(proxy.port)
  const sql = connectPostgres({ url: through.href, max: 1 })
  t.teardown(async () => {
    await sql.end({ timeout: 1 })
    await proxy.close()
  })
  return {
    sql,
    proxy,
    async untilAsleep () {
      await waitFor(async () => (await direct`
        SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`).length > 0)
    },
    async breakIt () {
      const before = proxy.broken
      proxy.set('refuse')
      proxy.set('pass')
      t.equal(proxy.broken, before + 1)
    }
  }
}

t.test('fails a transaction whose connection is lost, and works on', async (t) => {
  const { sql, breakIt } = await startPool(t)

  for (let round = 0; round < 6; round++) {
    const broken = sql.begin(async (transaction) => {
      await transaction`INSERT INTO notes VALUES ('first')`
      await breakIt()
      // In some rounds the driver knows by then that the connection is gone, in some it does not.
      await delay(round % 3 * 20)
      await transaction`INSERT INTO notes VALUES (${'x'.repeat(round * 400)})`
    })

    await t.rejects(broken, { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET)$/ })
    t.same(await sql`SELECT 1 AS answer`, [{ answer: 1 }])
  }
  t.same(await sql`SELECT * FROM notes`, [])
})

t.test('never lets a lost transaction speak in another one', async (t) => {
  const { sql, breakIt } = await startPool(t)
  const { promise: nextIsOpen, resolve: openNext } = Promise.withResolvers<void>()
  const { promise: lostHasSpoken, resolve: letNextGo } = Promise.withResolvers<void>()

  const lost = sql.begin(async (transaction) => {
    await breakIt()
    await nextIsOpen
    try {
      await transaction`INSERT INTO notes VALUES ('of the lost one')`
    } finally {
      letNextGo()
    }
  })
  await t.rejects(lost, { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET)$/ })
  const next = sql.begin(async (transaction) => {
    await transaction`INSERT INTO notes VALUES ('of the next one')`
    openNext()
    await lostHasSpoken
    // Its ROLLBACK comes two turns after its statement failed.
    for (let turn = 0; turn < 5; turn++) await nextTurn()
    throw new Error('taken back')
  })
  await t.rejects(next, { message: 'taken back' })

  t.same(await sql`SELECT * FROM notes`, [])
})

t.test('fails queries of a database that closed all connections and accepts none', { timeout: 60_000 }, async (t) => {
  const { url } = await createTestPostgres(t)
  const sql = connectPostgres({ url, max: 1 })
  t.teardown(() => sql.end({ timeout: 1 }))
  const adminUrl = new URL(url)
  const database = adminUrl.pathname.slice(1)
  adminUrl.pathname = '/postgres'
  const admin = connectPostgres({ url: adminUrl.href, max: 1 })
  t.teardown(() => admin.end())
  await sql`SELECT 1`
  // Waited for from the start: a rejection that nobody has asked for yet fails the test.
  const lost = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: 'MILLRACE_POSTGRES_CONNECTION_LOST' })

  await admin.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`)
  await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database}`

  await lost
  await t.rejects(sql`SELECT 2`, { code: '55000', message: /not currently accepting connections/ })
  await t.rejects(sql`SELECT 3`, { code: '55000' })
  await admin.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`)
  t.strictSame([...await sql`SELECT 4 AS answer`], [{ answer: 4 }])
})

t.test('fails queries of a server that closes connections silently, and reconnects for each query', { timeout: 60_000 }, async (t) => {
  let calls = 0
  const server = net.createServer((socket) => {
    calls++
    socket.on('error', () => {}).resume().end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const sql = connectPostgres({ url: `postgres://nobody:none@127.0.0.1:${(server.address() as AddressInfo).port}/none`, max: 1 })

  for (let i = 0; i < 3; i++) await t.rejects(sql`SELECT 1`, { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET|EPIPE)$/ })

  t.equal(calls, 3, 'one call a query')
  await sql.end()
})

t.test('ends after a connection was lost in the middle of a query', { timeout: 60_000 }, async (t) => {
  const { sql, proxy, breakIt, untilAsleep } = await startPool(t)
  await sql`SELECT 1`
  const lost = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET)$/ })
  await untilAsleep()

  await breakIt()

  await lost
  proxy.set('refuse')
  await sql.end()
})

t.test('ends when a connection is lost while the end waits for its query', { timeout: 60_000 }, async (t) => {
  const { sql, breakIt, untilAsleep } = await startPool(t)
  await sql`SELECT 1`
  const lost = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET)$/ })
  const end = sql.end()
  await untilAsleep()

  await breakIt()

  await Promise.all([lost, end])
})

t.test('goes on after a COPY, whatever its size, read to the end or not', async (t) => {
  const { url } = await createTestPostgres(t)
  const sql = connectPostgres({ url, max: 1 })
  t.teardown(() => sql.end())

  await sql.begin(async (transaction) => {
    for (let rows = 1; rows < 40; rows++) {
      const copy = await transaction.copyTo(`COPY (SELECT repeat('x', 8000) FROM generate_series(1, ${rows})) TO STDOUT`)
      // Anyone who reads later than the data comes makes the driver pause.
      await delay(rows % 4)
      if (rows % 5 === 0) copy.destroy()
      else t.equal((await buffer(copy)).length, rows * 8001)
      t.same(await transaction`SELECT ${rows}::int AS answer`, [{ answer: rows }])
    }
  })
})

t.test('fails the statements that wait in a transaction whose connection is lost', { timeout: 60_000 }, async (t) => {
  const { sql, breakIt } = await startPool(t)

  const lost = sql.begin(async (transaction) => {
    const statements = [1, 2, 3].map((i) => transaction`SELECT pg_sleep(60), ${i}::int`.execute())
    const outcomes = Promise.allSettled(statements)
    await breakIt()
    t.match(await outcomes, [1, 2, 3].map(() => ({ status: 'rejected', reason: { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET)$/ } })))
  })

  await t.rejects(lost, { code: /^(MILLRACE_POSTGRES_CONNECTION_LOST|ECONNRESET)$/ })
  t.same(await sql`SELECT 1 AS answer`, [{ answer: 1 }])
})

t.test('gives a statement up when it is cancelled, and its connection with it', { timeout: 60_000 }, async (t) => {
  const { sql, untilAsleep } = await startPool(t)
  await sql`SELECT 1`
  const slow = sql`SELECT pg_sleep(60)`
  const rejected = t.rejects(slow.execute(), { code: 'MILLRACE_POSTGRES_CONNECTION_LOST' })
  await untilAsleep()
  slow.cancel()

  await rejected

  t.same(await sql`SELECT 2 AS answer`, [{ answer: 2 }])
})

t.test('gives up a server that says nothing for longer than a statement may take', { timeout: 60_000 }, async (t) => {
  const { url } = await createTestPostgres(t)
  const proxy = await startTcpFaultProxy({ port: Number(new URL(url).port) })
  t.teardown(() => proxy.close())
  const through = new URL(url)
  through.port = String(proxy.port)
  const sql = connectPostgres({ url: through.href, max: 1, statementTimeoutMs: 200 })
  t.teardown(() => sql.end({ timeout: 0.1 }))
  // A busy server takes as long for an answer, too.
  await waitFor(async () => await sql`SELECT 1`)
  proxy.set('stall')

  const outcomes = await Promise.allSettled([
    sql`SELECT 2`.execute(), sql`SELECT 3`.execute(), sql.begin(async (transaction) => await transaction`SELECT 4`)
  ])

  t.match(outcomes, [1, 2, 3].map(() => ({ status: 'rejected', reason: { code: 'MILLRACE_POSTGRES_CONNECTION_LOST' } })))
  proxy.set('pass')
  t.same(await waitFor(async () => await sql`SELECT 5 AS answer`), [{ answer: 5 }])
})

t.test('gives up a server that says nothing while a connection is made, and no other', { timeout: 60_000 }, async (t) => {
  const { url } = await createTestPostgres(t)
  const proxy = await startTcpFaultProxy({ port: Number(new URL(url).port) })
  t.teardown(() => proxy.close())
  const through = new URL(url)
  through.port = String(proxy.port)
  const open = (connectTimeoutMs: number): Sql => {
    const sql = connectPostgres({ url: through.href, max: 1, connectTimeoutMs })
    t.teardown(() => sql.end({ timeout: 0.1 }))
    return sql
  }
  proxy.set('stall')
  await t.rejects(open(1000)`SELECT 1`, { code: 'MILLRACE_POSTGRES_CONNECTION_LOST', message: /no connection after 1000 ms/ })

  proxy.set('pass')
  const beside = open(1000)`SELECT 2 AS answer`.execute()
  // The connection is asked for, and then this process does something else for longer than the server may be silent.
  const busyUntil = performance.now() + 1300
  while (performance.now() < busyUntil);
  t.same(await beside, [{ answer: 2 }])
})

t.test('sends many statements on few connections, and a transaction gets its turn among them', async (t) => {
  const { url } = await createTestPostgres(t)
  const sql = connectPostgres({ url, max: 2 })
  t.teardown(() => sql.end())
  const pids = new Set<number>()
  const over = new AbortController()
  const ask = async (n: number): Promise<void> => {
    const [row] = await sql<{ pid: number, n: number }[]>`SELECT pg_backend_pid() AS pid, ${n}::int AS n`
    if (row?.n !== n) throw new Error(`${row?.n} is the answer to another statement than ${n}`)
    pids.add(row.pid)
  }
  const callers = Array.from({ length: 40 }, async (_, i) => {
    for (let n = i; !over.signal.aborted; n += 40) await ask(n)
  })

  for (let i = 0; i < 5; i++) t.same(await sql.begin(async (transaction) => await transaction`SELECT ${i}::int AS i`), [{ i }])
  await waitFor(() => pids.size === 2)
  over.abort()
  await Promise.all(callers)

  await t.rejects(sql`SELECT 1 / ${0}::int`, { code: '22012' })
})

t.test('refuses statements after its end, and fails what the end does not wait for', { timeout: 60_000 }, async (t) => {
  const { url } = await createTestPostgres(t)
  const sql = connectPostgres({ url, max: 1 })
  await sql`SELECT 1`
  const running = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: 'MILLRACE_POSTGRES_CONNECTION_LOST' })
  const begun = t.rejects(sql.begin(async (transaction) => await transaction`SELECT 1`), { code: /^MILLRACE_POSTGRES_/ })

  await sql.end({ timeout: 0.1 })

  await Promise.all([running, begun])
  await t.rejects(sql`SELECT 1`, { code: 'MILLRACE_POSTGRES_POOL_CLOSED' })
})
