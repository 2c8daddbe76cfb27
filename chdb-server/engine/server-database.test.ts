import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { type HttpAnswer, startTestServer } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
const readLog = async (columns: string, where: string): Promise<unknown[]> => {
  await server.ask('SYSTEM FLUSH LOGS')
  const answer = await server.ask(`SELECT ${columns} FROM chdb_server.query_log WHERE ${where} ORDER BY event_time, query FORMAT JSONEachRow`)
  return answer.text.trim().split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as unknown)
}
const asAnalyst = async (query: string, params: Record<string, string> = {}): Promise<HttpAnswer> =>
  await server.ask(query, { user: 'analyst', params, headers: { 'user-agent': 'some tool' } })

t.test('tells who asked what, when, for how long, what it read and how it ended', async (t) => {
  await asAnalyst('/* dashboard 7 */ select sum(number) from numbers(1000)', { query_id: 'one', log_comment: 'weekly', database: 'shop' })
  await asAnalyst('SELECT nope', { query_id: 'two' })
  await asAnalyst('DROP TABLE x', { query_id: 'three' })

  const rows = await readLog('*', "query_id IN ('one', 'two', 'three')") as Array<Record<string, unknown>>
  const byId = new Map(rows.map((row) => [row.query_id, row]))
  t.match(byId.get('one'), {
    type: 'QueryFinish',
    user: 'analyst',
    query: '/* dashboard 7 */ select sum(number) from numbers(1000)',
    query_kind: 'Select',
    result_rows: 1,
    result_bytes: 7,
    exception_code: 0,
    current_database: 'shop',
    log_comment: 'weekly',
    http_user_agent: 'some tool'
  })
  t.match(byId.get('two'), { type: 'ExceptionWhileProcessing', exception_code: 47, exception: /UNKNOWN_IDENTIFIER/ })
  t.match(byId.get('three'), { exception_code: 164, query_kind: 'Drop' })
  const seconds = Date.now() / 1000
  t.ok(rows.every((row) => Math.abs(Date.parse(`${row.event_time}Z`) / 1000 - seconds) < 60))
})

t.test('tells what longer queries have read', async (t) => {
  const params = { query_id: 'heavy', max_execution_time: '2' }
  await asAnalyst('SELECT sum(cityHash64(number)) FROM system.numbers', params)

  const rows = await readLog('read_rows, memory_usage, exception_code', "query_id = 'heavy'") as Array<Record<string, number>>
  t.equal(rows[0]?.exception_code, 159)
  t.ok(rows[0]!.read_rows! > 1_000_000)
  t.ok(rows[0]!.memory_usage! > 0)
})

t.test('leaves out what the product does all day, but not its failures', async (t) => {
  await server.ask('CREATE TABLE shop.quiet (a UInt8) ENGINE MergeTree ORDER BY a')
  await server.ask('SELECT 1', { params: { query_id: 'polled' } })
  await server.ask('INSERT INTO shop.quiet FORMAT CSV', { body: '1', params: { query_id: 'stored' } })
  await server.ask('INSERT INTO shop.quiet FORMAT CSV', { body: 'x', params: { query_id: 'refused' } })

  const rows = await readLog('query_id, query, query_kind', "query_id IN ('polled', 'stored', 'refused')")
  t.same(rows, [{ query_id: 'refused', query: 'INSERT INTO shop.quiet   FORMAT CSV', query_kind: 'Insert' }])
})

t.test('shows parameters with their values, as a server does', async (t) => {
  const query = 'SELECT {day:Date}, {a:String} /* {a:String} */, {n:UInt8} + 1, {m:Map(String, String)}, {t:Identifier} FROM (SELECT 1 AS x)'
  const params = { param_day: '2026-03-01', param_a: "it's \\t\\\\", param_n: '7', param_m: "{'a':'b'}", param_t: 'x' }
  t.match(await asAnalyst(query, { query_id: 'filled', ...params }), { status: 200 })

  t.same(await readLog('query', "query_id = 'filled'"), [{
    query: "SELECT '2026-03-01', 'it\\'s \\t\\\\' /* {a:String} */, 7 + 1, {'a':'b'}, x FROM (SELECT 1 AS x)".replace('\\t', '\t')
  }])
})

t.test('keeps a long query short', async (t) => {
  await asAnalyst(`SELECT length('${'x'.repeat(100_000)}')`, { query_id: 'long' })

  t.same(await readLog('length(query) AS n', "query_id = 'long'"), [{ n: 16_384 }])
})

t.test('is still there after a restart', async (t) => {
  await asAnalyst('SELECT 42', { query_id: 'before' })
  await server.stop('SIGTERM')
  await server.restart()

  t.same(await readLog('query', "query_id = 'before'"), [{ query: 'SELECT 42' }])
})

t.test('is not for analysts, and not listed to them', async (t) => {
  t.match(await asAnalyst('SELECT * FROM chdb_server.query_log'), { code: 497 })
  t.equal((await asAnalyst("SELECT count() FROM system.tables WHERE database = 'chdb_server'")).text, '0\n')
})

t.test('answers the queries with which BI tools begin', async (t) => {
  const settings = { session_id: 'bi', client_protocol_version: '54405', wait_end_of_query: '1', send_progress_in_http_headers: '1' }
  const queries = [
    'SELECT version(), timezone()', 'SELECT name, value, readonly FROM system.settings LIMIT 10000', 'SELECT 1 AS check',
    'SELECT name, engine, comment FROM system.tables WHERE database = \'shop\'', 'SHOW DATABASES', 'SHOW TABLES FROM shop',
    "SELECT * FROM system.columns WHERE database = 'shop'", 'SELECT * FROM system.databases', 'SELECT * FROM system.functions',
    'SELECT * FROM INFORMATION_SCHEMA.TABLES', 'DESCRIBE TABLE (SELECT 1 AS a)', 'SELECT currentUser(), hostName()',
    'SELECT * FROM system.data_type_families', 'SELECT timezone()', 'SELECT * FROM system.tables LIMIT 1'
  ]
  for (const query of queries) {
    const native = await asAnalyst(`${query} FORMAT Native`, settings)
    const binary = await asAnalyst(query, { ...settings, default_format: 'RowBinaryWithNamesAndTypes' })
    t.match([native.status, binary.status], [200, 200], `${query} ${native.code > 0 ? native.text : ''}`)
  }
})

const HOME = tmpdir()

t.test('a data directory may have quotes, spaces and other alphabets in its path', async (t) => {
  const folder = await mkdtemp(path.join(HOME, 'chdb-it\'s a "disk" für наш '))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  process.env.TMPDIR = folder
  const server = await startTestServer(t)

  const list = 'SELECT query FROM system.processes'
  t.equal((await server.ask(list)).text, `${list}\n`)
  await server.stop('SIGKILL')
  await server.restart()
  t.equal((await server.ask(list)).text, `${list}\n`)
})

t.test('one with a backslash, which the engine cannot open, is refused with a sentence', async (t) => {
  const folder = await mkdtemp(path.join(HOME, 'chdb-test-back\\slash-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  process.env.TMPDIR = folder

  await t.rejects(startTestServer(t), { message: /--data-dir: ClickHouse cannot open .*: choose a folder without a backslash/ })
})
