import { appendFileSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { startTestServer, type TestServer } from '../testing/start-test-server.ts'

const WINDOW = 'SETTINGS non_replicated_deduplication_window = 1000'

/** A table and a view into a second one, with three months of a batch stored. */
async function storeBatch (server: TestServer): Promise<void> {
  await server.ask(`CREATE TABLE shop.k (a UInt64) ENGINE MergeTree PARTITION BY a % 3 ORDER BY a ${WINDOW}`)
  await server.ask(`CREATE TABLE shop.sums (n UInt64) ENGINE SummingMergeTree ORDER BY tuple() ${WINDOW}`)
  await server.ask('CREATE MATERIALIZED VIEW shop.v TO shop.sums AS SELECT count() AS n FROM shop.k')
  // What it is loaded with from now on; see schema/migrate/migrate-clickhouse.ts.
  await server.stop('SIGTERM')
  await server.restart()
  await server.ask('SYSTEM STOP MERGES')
  await insert(server, 'one')
  await insert(server, 'two')
}

async function insert (server: TestServer, token: string): Promise<void> {
  const body = Array.from({ length: 300 }, (_, i) => token === 'one' ? i : 1000 + i).join('\n')
  const params = {
    insert_deduplication_token: token, async_insert: '0', deduplicate_blocks_in_dependent_materialized_views: '1'
  }
  const { status, text } = await server.ask('INSERT INTO shop.k FORMAT CSV', { body, params })
  if (status !== 200) throw new Error(text)
}

async function count (server: TestServer): Promise<string> {
  const { text } = await server.ask('SELECT count(), uniqExact(a), (SELECT sum(n) FROM shop.sums) FROM shop.k')
  return text.trim()
}

/** Folder of a table's files. */
async function folderOf (server: TestServer, table: string): Promise<string> {
  const { text } = await server.ask(`SELECT data_paths[1] FROM system.tables WHERE database = 'shop' AND name = '${table}'`)
  return text.trim()
}

/** Takes the name of the newest part away: what kill -9 leaves between a token and the name of its part. */
function takeNameAway (folder: string): void {
  const numberOf = (name: string): number => Number(/^\w+?_(\d+)_\1_\d$/.exec(name)?.[1] ?? 0)
  const newest = readdirSync(folder).reduce((a, b) => numberOf(b) > numberOf(a) ? b : a)
  if (numberOf(newest) === 0) throw new Error(`no part that was inserted: ${readdirSync(folder).join(' ')}`)
  renameSync(path.join(folder, newest), path.join(folder, `tmp_insert_${newest}`))
}

t.test('stores a repeated insert whose token was recorded, but not its part', async (t) => {
  const server = await startTestServer(t)
  await storeBatch(server)
  t.equal(await count(server), '600\t600\t600')
  const [events, sums] = [await folderOf(server, 'k'), await folderOf(server, 'sums')]

  await server.stop('SIGKILL')
  takeNameAway(events)
  takeNameAway(sums)
  await server.restart()
  t.match(await count(server), /^500\t500\t(300|500)$/)
  await insert(server, 'two')
  await insert(server, 'one')
  t.equal(await count(server), '600\t600\t600')

  await server.stop('SIGKILL')
  await server.restart()
  await insert(server, 'two')
  t.equal(await count(server), '600\t600\t600', 'and remembers it from then on')
})

t.test('remembers what was merged', async (t) => {
  const server = await startTestServer(t)
  await storeBatch(server)
  await server.ask('SYSTEM START MERGES')
  await server.ask('OPTIMIZE TABLE shop.k FINAL')
  await server.ask('OPTIMIZE TABLE shop.sums FINAL')
  const folder = path.join(await folderOf(server, 'k'), 'deduplication_logs')
  const read = (): string => readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8')).join('')
  const before = read()

  await server.stop('SIGKILL')
  await server.restart()
  await insert(server, 'one')

  t.equal(await count(server), '600\t600\t600')
  t.equal(read(), before)
  t.equal(before.split('\n').length, 7)
})

t.test('a log of tokens whose end a power failure tore remembers the next ones, too', async (t) => {
  const server = await startTestServer(t)
  const tails = { half: '1\tall_9', endless: '1\tall_9_9_0\tall_1_2', zeros: '\0'.repeat(54) }
  const insertInto = async (table: string, token: string): Promise<void> => {
    await server.ask(`INSERT INTO shop.${table} FORMAT CSV`, { body: '1', params: { insert_deduplication_token: token } })
  }
  for (const table of Object.keys(tails)) {
    await server.ask(`CREATE TABLE shop.${table} (a UInt64) ENGINE MergeTree ORDER BY a ${WINDOW}`)
    await insertInto(table, 'one')
  }
  const folders = await Promise.all(Object.keys(tails).map(async (table) => await folderOf(server, table)))

  await server.stop('SIGKILL')
  for (const [index, tail] of Object.values(tails).entries()) {
    const logs = path.join(folders[index]!, 'deduplication_logs')
    appendFileSync(path.join(logs, readdirSync(logs).at(-1)!), tail)
  }
  await server.restart()
  for (const table of Object.keys(tails)) await insertInto(table, 'two')
  await server.stop('SIGKILL')
  await server.restart()

  for (const table of Object.keys(tails)) {
    for (const token of ['one', 'two']) await insertInto(table, token)
    t.equal((await server.ask(`SELECT count() FROM shop.${table}`)).text, '2\n', table)
  }
})
