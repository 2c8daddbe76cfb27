import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { type ClickHouseClient, ClickHouseError, ClickHouseLogLevel, type ClickHouseSettings, createClient } from '@clickhouse/client'
import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
const clients: ClickHouseClient[] = []
t.after(async () => { for (const client of clients) await client.close() })

function connect (options: Parameters<typeof createClient>[0] = {}): ClickHouseClient {
  const client = createClient({
    url: `http://127.0.0.1:${server.port}`,
    username: 'owner',
    password: TEST_PASSWORDS.owner,
    database: 'shop',
    log: { level: ClickHouseLogLevel.OFF },
    ...options
  })
  clients.push(client)
  return client
}

const client = connect()
const tableName = (): string => `t_${randomUUID().replaceAll('-', '')}`

t.test('answers the ping of the client', async (t) => {
  t.match(await client.ping(), { success: true })
  t.match(await client.ping({ select: true }), { success: true })
})

t.test('gives rows in every JSON format of the client', async (t) => {
  const query = 'SELECT number AS n, toString(number) AS s FROM system.numbers LIMIT 3'

  const rows = await (await client.query({ query, format: 'JSONEachRow' })).json()
  const whole = await (await client.query({ query, format: 'JSON' })).json()
  const compact = await (await client.query({ query, format: 'JSONCompactEachRowWithNamesAndTypes' })).json()

  t.same(rows, [{ n: 0, s: '0' }, { n: 1, s: '1' }, { n: 2, s: '2' }])
  t.match(whole, { rows: 3, data: [{ n: 0 }, { n: 1 }, { n: 2 }], meta: [{ name: 'n', type: 'UInt64' }, {}] })
  t.same(compact, [['n', 's'], ['UInt64', 'String'], [0, '0'], [1, '1'], [2, '2']])
})

t.test('streams a result much larger than what is held in memory', async (t) => {
  const query = "SELECT number AS n, repeat('x', 100) AS s FROM numbers(1000000)"
  const result = await client.query({ query, format: 'JSONEachRow' })

  let rows = 0
  let sum = 0
  for await (const batch of result.stream<{ n: number }>()) {
    for (const row of batch) {
      rows++
      sum += row.json<{ n: number }>().n
    }
  }

  t.equal(rows, 1_000_000)
  t.equal(sum, 499_999_500_000)
})

t.test('inserts objects, arrays and streams', async (t) => {
  const table = tableName()
  await client.command({ query: `CREATE TABLE ${table} (a UInt32, b String, c Array(String)) ENGINE MergeTree ORDER BY a` })

  const first = await client.insert({ table, values: [{ a: 1, b: 'x;\n\nDROP', c: ["it's"] }], format: 'JSONEachRow' })
  await client.insert({ table, values: [[2, 'y', []]], format: 'JSONCompactEachRow' })
  await client.insert({ table, values: Readable.from([{ a: 3, b: 'z', c: [] }, { a: 4, b: '', c: [] }]), format: 'JSONEachRow' })
  await client.insert({ table, values: Readable.from(['5,five,[]\n6,six,[]\n'], { objectMode: false }), format: 'CSV' })
  await client.insert({ table, values: [{ a: 7 }], format: 'JSONEachRow', columns: ['a'] })

  const rows = await (await client.query({ query: `SELECT * FROM ${table} ORDER BY a`, format: 'JSONCompactEachRow' })).json()
  t.same(rows, [[1, 'x;\n\nDROP', ["it's"]], [2, 'y', []], [3, 'z', []], [4, '', []], [5, 'five', []], [6, 'six', []], [7, '', []]])
  t.equal(first.executed, true)
  t.equal(first.summary?.written_rows, '1')
})

t.test('inserts bytes by exec, compressed by the client', async (t) => {
  const table = tableName()
  const compressing = connect({ compression: { request: true, response: true } })
  await client.command({ query: `CREATE TABLE ${table} (a UInt32) ENGINE MergeTree ORDER BY a` })

  const values = Readable.from([Buffer.from('{"a":1}\n{"a":2}\n')], { objectMode: false })
  const { stream } = await client.exec({ query: `INSERT INTO ${table} FORMAT JSONEachRow`, values })
  stream.destroy()
  await compressing.insert({ table, values: [{ a: 3 }], format: 'JSONEachRow' })

  const rows = await (await compressing.query({ query: `SELECT sum(a) AS s FROM ${table}`, format: 'JSONEachRow' })).json()
  t.same(rows, [{ s: 6 }])
})

t.test('binds parameters of every kind the client writes', async (t) => {
  const params = {
    text: "it's \\ a \t tab \n line 'quoted' {x:String} -- no comment",
    number: -5,
    big: '18446744073709551615',
    yes: true,
    nothing: null,
    list: ["a'b", 'c\\d', '\n'],
    nested: [[1, 2], []],
    pairs: new Map([["k'", 1]]),
    day: '2024-02-29',
    at: new Date('2024-02-29T12:34:56.789Z'),
    id: '61f0c404-5cb3-11e7-907b-a6006ad3dba0',
    column: 'own'
  }
  const query = `SELECT {text:String} AS text, {number:Int32} AS number, {big:UInt64} AS big, {yes:Bool} AS yes,
    {nothing:Nullable(String)} AS nothing, {list:Array(String)} AS list, {nested:Array(Array(UInt8))} AS nested,
    {pairs:Map(String, UInt8)} AS pairs, {day:Date} AS day, {at:DateTime64(3, 'UTC')} AS at, {id:UUID} AS id,
    {column:Identifier} AS column, {text:LowCardinality(String)} = {text:String} AS same
    FROM (SELECT 7 AS own)`

  const settings = { output_format_json_quote_64bit_integers: 1 } as const
  const result = await client.query({ query, query_params: params, format: 'JSONEachRow', clickhouse_settings: settings })

  t.same(await result.json(), [{
    text: params.text,
    number: -5,
    big: '18446744073709551615',
    yes: true,
    nothing: null,
    list: params.list,
    nested: [[1, 2], []],
    pairs: { "k'": 1 },
    day: '2024-02-29',
    at: '2024-02-29 12:34:56.789',
    id: params.id,
    column: 7,
    same: 1
  }])
})

t.test('does not let a parameter of one query be seen by the next', async (t) => {
  await client.query({ query: 'SELECT {secret:String}', query_params: { secret: 'mine' }, format: 'JSONEachRow' })

  await t.rejects(client.query({ query: 'SELECT {secret:String}', format: 'JSONEachRow' }), { code: '456', type: 'UNKNOWN_QUERY_PARAMETER' })
})

t.test('tells errors as ClickHouseError with code and type', async (t) => {
  const cases = [
    ['SELECT nope', '47', 'UNKNOWN_IDENTIFIER'],
    ['SELEC 1', '62', 'SYNTAX_ERROR'],
    ['SELECT * FROM nope', '60', 'UNKNOWN_TABLE'],
    ['SELECT nope()', '46', 'UNKNOWN_FUNCTION'],
    ["SELECT throwIf(number = 3, 'boom') FROM numbers(10)", '395', 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'],
    ["SELECT CAST('x' AS UInt8)", '6', 'CANNOT_PARSE_TEXT']
  ] as const
  for (const [query, code, type] of cases) {
    const error = await client.query({ query, format: 'JSONEachRow' }).then(() => undefined, (error: unknown) => error)
    t.ok(error instanceof ClickHouseError, query)
    t.match(error, { code, type }, query)
  }
})

t.test('tells an error in the middle of a stream', async (t) => {
  const query = "SELECT throwIf(number = 3000000, 'boom') AS x FROM numbers(5000000)"
  const result = await client.query({ query, format: 'JSONEachRow' })

  const read = async (): Promise<void> => { for await (const rows of result.stream()) void rows }

  await t.rejects(read(), { code: '395' })
})

t.test('waits for the end of the query when asked, so that such an error has its status', async (t) => {
  const query = "SELECT throwIf(number = 3000000, 'boom') AS x FROM numbers(5000000)"

  await t.rejects(client.query({ query, format: 'JSONEachRow', clickhouse_settings: { wait_end_of_query: 1 } }), { code: '395' })
})

t.test('takes sessions, and refuses what they would have to keep', async (t) => {
  const session = connect({ session_id: randomUUID() })

  for (const query of ['CREATE TEMPORARY TABLE tmp (a UInt8)', 'SET max_block_size = 7', 'USE shop', 'CREATE OR REPLACE TEMPORARY TABLE tmp (a UInt8)']) {
    await t.rejects(session.command({ query }), { code: '48', type: 'NOT_IMPLEMENTED' }, query)
  }
  t.same(await (await session.query({ query: 'SELECT 1 AS a', format: 'JSONEachRow' })).json(), [{ a: 1 }])
  await client.command({ query: 'SET max_block_size = 7' })
})

t.test('applies settings of one query to that query alone', async (t) => {
  const query = "SELECT getSetting('max_block_size') AS size"
  const size = async (settings: ClickHouseSettings): Promise<unknown> =>
    await (await client.query({ query, format: 'JSONEachRow', clickhouse_settings: settings })).json()

  const usual = await size({})
  t.same(await size({ max_block_size: '777' }), [{ size: 777 }])
  t.same(await size({}), usual)
})

t.test('stops the query of a client that aborts', async (t) => {
  const abort = new AbortController()
  const marker = randomUUID()
  const query = `SELECT count() FROM system.numbers WHERE toString(number) = '${marker}'`
  const running = client.query({ query, format: 'JSONEachRow', abort_signal: abort.signal })
  const isRunning = async (): Promise<boolean> => {
    const list = `SELECT count() AS n FROM system.processes WHERE query LIKE '%${marker}%' AND query NOT LIKE '%processes%'`
    const rows = await (await client.query({ query: list, format: 'JSONEachRow' })).json<{ n: number }>()
    return Number(rows[0]!.n) > 0
  }

  await waitFor(isRunning)
  abort.abort()

  await t.rejects(running)
  await waitFor(async () => !(await isRunning()))
})

t.test('kills a query by the id its client gave it', async (t) => {
  const queryId = randomUUID()
  const running = client.query({ query: 'SELECT count() FROM system.numbers', format: 'JSONEachRow', query_id: queryId })
  const outcome = running.then(() => undefined, (error: unknown) => error)
  await waitFor(async () => {
    const query = `KILL QUERY WHERE query_id = '${queryId}'`
    const rows = await (await client.query({ query, format: 'JSONEachRow' })).json()
    return rows.length === 1
  })

  t.match(await outcome, { code: '394', type: 'QUERY_WAS_CANCELLED' })
})

t.test('refuses a wrong password as a server does', async (t) => {
  const stranger = connect({ password: 'wrong' })

  await t.rejects(stranger.query({ query: 'SELECT 1', format: 'JSONEachRow' }), { code: '516', type: 'AUTHENTICATION_FAILED' })
})

// Idle sockets of the clients would keep the file from ending by itself.
t.end()
