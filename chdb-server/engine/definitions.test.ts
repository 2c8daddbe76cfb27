import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { tokenizeSql } from '../statement/sql-lexer.ts'
import { startTestServer, type TestServer } from '../testing/start-test-server.ts'
import { Definitions } from './definitions.ts'

/** The kernel also sends a signal, which would end the process before the engine sees the error. */
const ENV = { NODE_OPTIONS: "--import=data:text/javascript,process.on('SIGXFSZ',()=>{})" }

/** A definition longer than the limits below. */
const COLUMNS = Array.from({ length: 200 }, (_, column) => `column_${column} String COMMENT 'of the test ${column}'`).join(', ')

async function createTable (server: TestServer): Promise<void> {
  await server.ask(`CREATE TABLE shop.k (a UInt64, ${COLUMNS}) ENGINE MergeTree ORDER BY a`)
  await server.ask('INSERT INTO shop.k (a) SELECT number FROM numbers(10)')
}

/** Runs a statement while no file may become longer, which is how a disk behaves that has so many bytes left. */
async function cutShort (t: Test, server: TestServer, { sql, bytes }: { sql: string, bytes: number }): Promise<void> {
  execFileSync('prlimit', ['--pid', String(server.pid), `--fsize=${bytes}`])
  await t.rejects(server.ask(sql), { code: 'ECONNRESET' })
  t.equal(await server.stop('SIGTERM'), 'SIGKILL')
  await server.restart()
}

for (const bytes of [0, 4096, 5000]) {
  t.test(`a table stays as it was when only ${bytes} bytes of its new definition could be written`, async (t) => {
    const server = await startTestServer(t, { env: ENV })
    await createTable(server)

    await cutShort(t, server, { sql: "ALTER TABLE shop.k MODIFY COMMENT 'new'", bytes })

    t.equal((await server.ask('SELECT count(), sum(a) FROM shop.k')).text, '10\t45\n')
    t.equal((await server.ask("ALTER TABLE shop.k MODIFY COMMENT 'new'")).status, 200)
    await server.stop('SIGTERM')
    await server.restart()
    t.equal((await server.ask("SELECT comment FROM system.tables WHERE name = 'k'")).text, 'new\n', 'what was answered stays')
    t.notOk(existsSync(path.join(server.dataDir, 'clickhouse', 'server-definitions')))
  })

  t.test(`a table loads when only ${bytes} bytes of a mutation could be written`, async (t) => {
    const server = await startTestServer(t, { env: ENV })
    await createTable(server)

    await cutShort(t, server, { sql: `ALTER TABLE shop.k DELETE WHERE column_1 = '${'y'.repeat(10_000)}'`, bytes })

    t.equal((await server.ask('SELECT count(), sum(a) FROM shop.k')).text, '10\t45\n')
    const remove = 'ALTER TABLE shop.k DELETE WHERE a >= 5 SETTINGS mutations_sync = 1'
    t.equal((await server.ask(remove)).status, 200)
    t.equal((await server.ask('SELECT count(), sum(a) FROM shop.k')).text, '5\t10\n')
  })
}

t.test('a mutation that was answered and has not run yet goes on after a restart', async (t) => {
  const server = await startTestServer(t)
  await createTable(server)
  await server.ask('SYSTEM STOP MERGES')
  const remove = "ALTER TABLE shop.k DELETE WHERE a >= 5 AND column_1 != 'a\\nb' SETTINGS mutations_sync = 0"
  t.equal((await server.ask(remove)).status, 200)

  await server.stop('SIGKILL')
  await server.restart()

  t.equal((await server.ask("SELECT count() FROM system.mutations WHERE table = 'k'")).text, '1\n')
})

t.test('a new table that could not be written is not there, and can be made again', async (t) => {
  const server = await startTestServer(t, { env: ENV })
  const sql = `CREATE TABLE shop.k (a UInt64, ${COLUMNS}) ENGINE MergeTree ORDER BY a`

  await cutShort(t, server, { sql, bytes: 4096 })

  t.equal((await server.ask(sql)).status, 200)
})

t.test('a statement that writes a definition is refused on a full disk; one that makes room is not', async (t) => {
  // Has no room at all.
  const definitions = new Definitions('/proc')
  const run = async (sql: string): Promise<string> => await definitions.during(
    { tokens: tokenizeSql(sql), database: 'shop' }, async () => 'ran')

  await t.rejects(run('ALTER TABLE k ADD COLUMN b String'), { code: 243 })
  await t.rejects(run('CREATE TABLE l (a UInt8) ENGINE Memory'), { code: 243 })
  t.equal(await run("ALTER TABLE k DROP PARTITION '202611'"), 'ran')
  t.equal(await run('DROP TABLE k'), 'ran')
  t.equal(await run('TRUNCATE TABLE k'), 'ran')
})

t.test('keeps the definitions that a statement may change: of the databases that it names, and of all for RESTORE ALL', async (t) => {
  const engineDir = t.testdir({ metadata: { a: { 't.sql': 'one\n' }, b: { 't.sql': 'two\n' } } })
  const definitions = new Definitions(engineDir)
  const findKept = async (sql: string): Promise<string[]> => await definitions.during(
    { tokens: tokenizeSql(sql), database: 'shop' },
    async () => readdirSync(path.join(engineDir, 'server-definitions'), { recursive: true }).map(String).filter((name) => name.endsWith('.sql')).sort())

  t.same(await findKept("RESTORE DATABASE a AS c FROM File('x')"), ['a/t.sql'])
  t.same(await findKept("RESTORE TABLE c.t AS `b`.t FROM File('x')"), ['b/t.sql'])
  t.same(await findKept("RESTORE ALL FROM File('x')"), ['a/t.sql', 'b/t.sql'])
})

t.test('statements that make and drop tables beside each other do not get in the way of each other', async (t) => {
  const server = await startTestServer(t)
  const statuses = new Set<number>()
  const makeAndDrop = async (worker: number): Promise<void> => {
    for (let round = 0; round < 40; round++) {
      const name = `shop.t${worker}_${round}`
      for (const sql of [`CREATE TABLE ${name} (a UInt8) ENGINE MergeTree ORDER BY a`, `DROP TABLE ${name} SYNC`]) {
        statuses.add((await server.ask(sql)).status)
      }
    }
  }
  await Promise.all([1, 2, 3, 4, 5, 6].map(makeAndDrop))
  t.same(statuses, new Set([200]))
})
