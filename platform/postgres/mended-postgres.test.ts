import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createTestPostgres } from '../../test/support/create-test-postgres.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../test/faults/system/tcp-fault-proxy.ts'
import { connectPostgres, type Sql } from './connect-postgres.ts'
import { postgres } from './mended-postgres.ts'

/** A pool of one connection, which can be broken. */
async function startPool (t: Test): Promise<{ sql: Sql, proxy: TcpFaultProxy, breakIt: () => Promise<void> }> {
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

    await t.rejects(broken, { code: /^(CONNECTION_CLOSED|ECONNRESET)$/ })
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
    await transaction`INSERT INTO notes VALUES ('of the lost one')`
  })
  await t.rejects(lost, { code: /^(CONNECTION_CLOSED|ECONNRESET)$/ })
  const next = sql.begin(async (transaction) => {
    await transaction`INSERT INTO notes VALUES ('of the next one')`
    openNext()
    await lostHasSpoken
    throw new Error('taken back')
  })
  // Its ROLLBACK comes two turns after its statement failed.
  await nextIsOpen
  setTimeout(letNextGo, 100)
  await t.rejects(next, { message: 'taken back' })

  t.same(await sql`SELECT * FROM notes`, [])
})

t.test('fails what is asked of a database that threw everybody out and lets nobody in', { timeout: 20_000 }, async (t) => {
  const { url } = await createTestPostgres(t)
  const sql = connectPostgres({ url, max: 1 })
  t.teardown(() => sql.end({ timeout: 1 }))
  const adminUrl = new URL(url)
  const database = adminUrl.pathname.slice(1)
  adminUrl.pathname = '/postgres'
  const admin = postgres(adminUrl.href, { max: 1 })
  t.teardown(() => admin.end())
  await sql`SELECT 1`
  // Waited for from the start: a rejection that nobody has asked for yet fails the test.
  const lost = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: 'CONNECTION_CLOSED' })

  await admin.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`)
  await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database}`

  await lost
  await t.rejects(sql`SELECT 2`, { code: '55000', message: /not currently accepting connections/ })
  await t.rejects(sql`SELECT 3`, { code: '55000' })
  await admin.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`)
  t.strictSame([...await sql`SELECT 4 AS answer`], [{ answer: 4 }])
})

t.test('fails what is asked of a server that hangs up without a word, and tries again after a pause', { timeout: 20_000 }, async (t) => {
  let calls = 0
  const server = net.createServer((socket) => {
    calls++
    socket.on('error', () => {}).resume().end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const sql = connectPostgres({ url: `postgres://nobody:none@127.0.0.1:${(server.address() as AddressInfo).port}/none`, max: 1 })

  for (let i = 0; i < 3; i++) await t.rejects(sql`SELECT 1`, { code: /^(CONNECTION_CLOSED|ECONNRESET|EPIPE)$/ })

  t.equal(calls, 3, 'one call a query')
  await sql.end()
})

t.test('ends after a connection was lost in the middle of a query', { timeout: 20_000 }, async (t) => {
  const { sql, proxy, breakIt } = await startPool(t)
  await sql`SELECT 1`
  const lost = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: /^(CONNECTION_CLOSED|ECONNRESET)$/ })
  await delay(50)

  await breakIt()

  await lost
  proxy.set('refuse')
  await sql.end()
})

t.test('ends when a connection is lost while the end waits for its query', { timeout: 20_000 }, async (t) => {
  const { sql, breakIt } = await startPool(t)
  await sql`SELECT 1`
  const lost = t.rejects(sql`SELECT pg_sleep(60)`.execute(), { code: /^(CONNECTION_CLOSED|ECONNRESET)$/ })
  const end = sql.end()
  await delay(50)

  await breakIt()

  await Promise.all([lost, end])
})

t.test('goes on after a COPY, whatever its size, read to the end or not', async (t) => {
  const { sql } = await createTestPostgres(t)

  await sql.begin(async (transaction) => {
    for (let rows = 1; rows < 40; rows++) {
      const copy = await transaction.unsafe(`COPY (SELECT repeat('x', 8000) FROM generate_series(1, ${rows})) TO STDOUT`).readable()
      // Whoever reads later than the data comes makes the driver pause.
      await delay(rows % 4)
      if (rows % 5 === 0) copy.destroy()
      else t.equal((await buffer(copy)).length, rows * 8001)
      t.same(await transaction`SELECT ${rows}::int AS answer`, [{ answer: rows }])
    }
  })
})
