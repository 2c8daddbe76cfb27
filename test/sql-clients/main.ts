/**
 * `npm run test:sql-clients`: the clients of ClickHouse that people already have, unmodified, at pinned versions,
 * against the embedded server. They are installed at the first run (180 MB, most of it what Cube's driver brings),
 * apart from what Millrace itself needs.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import t from 'tap'
import { startTestServer, TEST_PASSWORDS } from 'chdb-server/testing'
import { openPage } from '../sdk/open-page.ts'

/** Where they are installed at the first run of a version of the list. */
const FOLDER = path.resolve(import.meta.dirname, '../../node_modules/.cache/millrace-sql-clients')

// The first run installs, which the runner's own limit of half a minute for a file does not allow for.
t.setTimeout(600_000)
install()
const require = createRequire(path.join(FOLDER, 'package.json'))
const server = await startTestServer(t, { database: 'millrace' })
const url = `http://127.0.0.1:${server.port}`
await server.ask(`CREATE TABLE millrace.events (uuid UUID, timestamp DateTime64(3, 'UTC'), event LowCardinality(String), n UInt64)
  ENGINE MergeTree ORDER BY timestamp`)
await server.ask(`INSERT INTO millrace.events
  SELECT generateUUIDv4(number), toDateTime64('2026-01-31 12:00:00.120', 3, 'UTC') + number, if(number % 2, 'paid', 'seen'), number FROM numbers(10)`)
const COUNTS = 'SELECT event, count() AS n FROM events GROUP BY event ORDER BY event'

void t.test('@clickhouse/client: parameters of times and long lists, typed rows, errors', async (t) => {
  const { createClient, ClickHouseLogLevel } = require('@clickhouse/client')
  const client = createClient({
    url, username: 'analyst', password: TEST_PASSWORDS.analyst, database: 'millrace', compression: { response: true }, log: { level: ClickHouseLogLevel.OFF }
  })
  const since = { query: 'SELECT count() AS n FROM events WHERE timestamp >= {since:DateTime64(3)}', format: 'JSONEachRow' }

  t.same(await (await client.query({ ...since, query_params: { since: '2026-01-31T12:00:05.120Z' } })).json(), [{ n: 5 }])
  t.same(await (await client.query({ ...since, query_params: { since: new Date('2026-01-31T12:00:05.120Z') } })).json(), [{ n: 5 }])
  t.match(await client.query({ query: 'selct 1' }).catch((error: unknown) => error), { type: 'SYNTAX_ERROR', code: '62' })
  t.match(await client.command({ query: 'TRUNCATE TABLE events' }).catch((error: unknown) => error), { type: 'READONLY' })
  await client.close()
})

void t.test('@clickhouse/client-web in Chromium', async (t) => {
  const root = path.dirname(require.resolve('@clickhouse/client-web'))
  const { page, close } = await openPage({ head: '', files: {} })
  t.after(close)
  // The page has the server's own origin, as behind a proxy that serves both.
  await page.route('**/page.html', async (route) => { await route.fulfill({ contentType: 'text/html', body: '<p>page</p>' }) })
  await page.goto(`${url}/page.html`)
  await page.addScriptTag({ content: bundle(root) })
  const rows = await page.evaluate(`(async () => {
    const client = clickhouse.createClient({ url: ${JSON.stringify(url)}, username: 'analyst', password: ${JSON.stringify(TEST_PASSWORDS.analyst)}, database: 'millrace' })
    const rows = await (await client.query({ query: ${JSON.stringify(COUNTS)}, format: 'JSONEachRow' })).json()
    const error = await client.query({ query: 'selct 1' }).then(() => undefined, (error) => error.type)
    return [rows, error, (await client.ping()).success]
  })()`)

  t.same(rows, [[{ event: 'paid', n: 5 }, { event: 'seen', n: 5 }], 'SYNTAX_ERROR', true])
})

void t.test('@founderpath/kysely-clickhouse: builds queries and reads their rows', async (t) => {
  const { Kysely } = require('kysely')
  const { ClickhouseDialect } = require('@founderpath/kysely-clickhouse')
  const options = { url, username: 'analyst', password: TEST_PASSWORDS.analyst, database: 'millrace' }
  const db = new Kysely({ dialect: new ClickhouseDialect({ options }) })

  const rows = await db.selectFrom('events').select(['event', 'n']).where('event', '=', 'paid').where('n', '>', 6).orderBy('n').execute()

  t.same(rows.map(({ event, n }: { event: string, n: unknown }) => [event, Number(n)]), [['paid', 7], ['paid', 9]])
  await db.destroy()
})

void t.test('clickhouse-migrations: applies migrations once', async (t) => {
  const folder = t.testdir({ '1_init.sql': 'CREATE TABLE IF NOT EXISTS marts (a UInt8) ENGINE MergeTree ORDER BY a;', '2_more.sql': 'ALTER TABLE marts ADD COLUMN b String;' })
  const cli = path.join(path.dirname(require.resolve('clickhouse-migrations')), 'cli.js')
  const args = ['migrate', '--host', url, '--user', 'owner', '--password', TEST_PASSWORDS.owner, '--db', 'marts', '--migrations-home', folder]
  const migrate = (): string => execFileSync(process.execPath, [cli, ...args], { encoding: 'utf8' })

  t.match(migrate(), /1_init\.sql/)
  t.doesNotThrow(migrate)
  t.equal((await server.ask("SELECT groupArray(name) FROM system.columns WHERE database = 'marts' AND table = 'marts'")).text, "['a','b']\n")
  t.equal((await server.ask('SELECT count() FROM marts._migrations')).text, '2\n')
})

void t.test('clickhouse 2.6: reads rows, streams and inserts', async (t) => {
  const { ClickHouse } = require('clickhouse')
  const connect = (username: 'analyst' | 'owner'): any => new ClickHouse({
    url: 'http://127.0.0.1', port: server.port, basicAuth: { username, password: TEST_PASSWORDS[username] }, format: 'json', config: { database: 'millrace' }
  })
  const rows = await connect('analyst').query(COUNTS).toPromise()
  await server.ask('CREATE TABLE millrace.inserted (a UInt8, b String) ENGINE MergeTree ORDER BY a')
  await connect('owner').insert('INSERT INTO inserted (a, b)', [{ a: 1, b: 'x' }, { a: 2, b: "it's" }]).toPromise()

  t.same(rows.map(({ event, n }: { event: string, n: unknown }) => [event, Number(n)]), [['paid', 5], ['seen', 5]])
  t.equal((await server.ask('SELECT * FROM millrace.inserted ORDER BY a')).text, "1\tx\n2\tit\\'s\n")
})

void t.test('@apla/clickhouse: reads rows and tells errors', async (t) => {
  const ClickHouse = require('@apla/clickhouse')
  const client = new ClickHouse({
    host: '127.0.0.1', port: server.port, user: 'analyst', password: TEST_PASSWORDS.analyst, dataObjects: true, queryOptions: { database: 'millrace' }
  })
  const { data } = await client.querying(COUNTS)

  t.same(data.map(({ event, n }: { event: string, n: unknown }) => [event, Number(n)]), [['paid', 5], ['seen', 5]])
  await t.rejects(client.querying('SELECT nope FROM events'), { message: /Code: 47\. .*UNKNOWN_IDENTIFIER/ })
})

void t.test('dbgate-plugin-clickhouse: shows the tables, views and rows of the database to an analyst', async (t) => {
  // As DbGate itself hands its packages to its plugins.
  Object.assign(globalThis, { DBGATE_PACKAGES: { 'dbgate-tools': require('dbgate-tools') } })
  const [driver] = require('dbgate-plugin-clickhouse').drivers
  await server.ask('CREATE VIEW millrace.payments AS SELECT * FROM millrace.events WHERE event = \'paid\'')
  const handle = await driver.connect({ databaseUrl: url, user: 'analyst', password: TEST_PASSWORDS.analyst, database: 'millrace' })
  const version = await driver.getVersion(handle)

  t.match(version, { version: /^\d+\.\d+/ })
  t.ok((await driver.listDatabases(handle)).some(({ name }: { name: string }) => name === 'millrace'))
  const { tables, views } = await driver.analyseFull(handle, version)
  const events = tables.find(({ pureName }: { pureName: string }) => pureName === 'events')
  t.match(events, { tableEngine: 'MergeTree', tableRowCount: '10', sortingKey: { columns: [{ columnName: 'timestamp' }] } })
  t.same(events.columns.map(({ columnName }: { columnName: string }) => columnName), ['uuid', 'timestamp', 'event', 'n'])
  t.same(views.map(({ pureName }: { pureName: string }) => pureName), ['payments'])
  t.match(await driver.query(handle, COUNTS), { columns: [{ columnName: 'event' }, { columnName: 'n' }], rows: [{ event: 'paid', n: '5' }, { event: 'seen', n: '5' }] })
  t.match(await driver.query(handle, 'DROP TABLE events').catch((error: unknown) => error), { type: 'READONLY' })
  await driver.close(handle)
})

void t.test('@cubejs-backend/clickhouse-driver: queries, types, the schema and a stream, as Cube asks for them', async (t) => {
  const { ClickHouseDriver } = require('@cubejs-backend/clickhouse-driver')
  const driver = new ClickHouseDriver({
    host: '127.0.0.1', port: server.port, username: 'analyst', password: TEST_PASSWORDS.analyst, database: 'millrace', dataSource: 'default'
  })
  await driver.testConnection()
  const since = 'SELECT event, count() AS n FROM events WHERE timestamp >= parseDateTimeBestEffort(?) GROUP BY event ORDER BY event'

  t.same(await driver.query(since, ['2026-01-31T12:00:05.000Z']), [{ event: 'paid', n: '3' }, { event: 'seen', n: '2' }])
  t.same((await driver.tablesSchema()).millrace.events.map(({ name }: { name: string }) => name).sort(), ['event', 'n', 'timestamp', 'uuid'])
  t.same(await driver.queryColumnTypes('SELECT event, n, timestamp FROM events', []), [
    { name: 'event', type: 'text' }, { name: 'n', type: 'bigint' }, { name: 'timestamp', type: 'timestamp' }
  ])
  const { rowStream } = await driver.stream('SELECT event, n FROM events ORDER BY n', [], { highWaterMark: 10 })
  const rows: { n: string }[] = []
  for await (const row of rowStream) rows.push(row)
  t.same(rows.map(({ n }) => Number(n)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  await t.rejects(driver.query('DROP TABLE events', []), { message: /readonly/ })
  await driver.release()
})

// Idle sockets of the clients would keep the file from ending by itself.
t.end()

function install (): void {
  const files = ['package.json', 'package-lock.json']
  const read = (folder: string): string => readFileSync(path.join(folder, 'package-lock.json'), 'utf8')
  const isThere = existsSync(path.join(FOLDER, 'node_modules/.package-lock.json'))
  if (isThere && read(FOLDER) === read(import.meta.dirname)) return
  mkdirSync(FOLDER, { recursive: true })
  for (const file of files) cpSync(path.join(import.meta.dirname, file), path.join(FOLDER, file))
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: FOLDER, stdio: 'inherit' })
}

/** The CommonJS files of a package as one script that a browser runs: `clickhouse` is what the package exports. */
function bundle (root: string): string {
  const modules = listScripts(root).map((file) =>
    `${JSON.stringify(path.relative(root, file))}: (module, exports, require) => {${readFileSync(file, 'utf8')}\n}`)
  return `const modules = {${modules.join(',\n')}}; const loaded = {}
    function load (name) {
      const file = [name, name + '.js', name + '/index.js'].find((it) => it in modules)
      if (loaded[file]) return loaded[file].exports
      const module = loaded[file] = { exports: {} }
      const folder = 'file:///' + file
      modules[file](module, module.exports, (wanted) => load(new URL(wanted, folder).pathname.slice(1)))
      return module.exports
    }
    globalThis.clickhouse = load('index.js')`
}

function listScripts (folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const file = path.join(folder, name)
    if (statSync(file).isDirectory()) return listScripts(file)
    return name.endsWith('.js') ? [file] : []
  })
}
