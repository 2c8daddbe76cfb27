import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createTestPostgres } from '../../test/support/create-test-postgres.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../test/faults/system/tcp-fault-proxy.ts'
import { connectPostgres, type Sql } from './connect-postgres.ts'

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
