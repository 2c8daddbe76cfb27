/** SQL: requests to ClickHouse, results, refused queries, and cancellation. */
import http from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'

/** So long a query takes if nobody ends it, a minute at least. */
const LONG = 'SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))'

interface SqlApi {
  api: TestApi
  client: ClickHouse
  createKey: (rights: { scopes: string[], projectIds: number[] | null }) => Promise<string>
  post: (path: string, body: unknown, options?: { signal?: AbortSignal, key?: string }) => Promise<Response>
  get: (path: string, key?: string) => Promise<Response>
  run: (query: string, more?: object) => Promise<Lines>
}

/** An API that listens, with the ClickHouse of the run. */
async function startApi (t: Test, analystUrl?: string): Promise<SqlApi> {
  const { url, client } = await createTestClickHouse(t)
  const analyst = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' })
  const api = await createTestApi(t, { clickhouse: client, analystUrl: analystUrl ?? analyst.href })
  const base = await api.app.listen({ port: 0, host: '127.0.0.1' })
  const createKey: SqlApi['createKey'] = async ({ scopes, projectIds }) => {
    const { key } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: 'sql', scopes, projectIds, expiresAt: null })
    await api.keys.refresh()
    return key
  }
  const post: SqlApi['post'] = async (path, body, { signal, key = api.key } = {}) => await fetch(`${base}/api/sql${path}`, {
    method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal })
  })
  return {
    api, client, createKey, post,
    get: async (path, key = api.key) => await fetch(`${base}/api/sql${path}`, { headers: { authorization: `Bearer ${key}` } }),
    run: async (query, more = {}) => await readLines(await post('', { query, ...more }))
  }
}

/** For tests that change nothing. */
const shared = await startApi(t)

interface Lines {
  columns?: [string[], string[]]
  rows: unknown[][]
  progress: { read_rows: number, total_rows: number }[]
  end?: { rows: number, bytes: number, cut: string | null, ms: number, read_rows: number }
  error?: { code: number, name: string, detail: string, advice: string, position: number | null }
}

async function readLines (response: Response): Promise<Lines> {
  const lines: Lines = { rows: [], progress: [] }
  for (const text of (await response.text()).split('\n').filter((line) => line !== '')) {
    const { rows = [], progress, ...line } = JSON.parse(text) as Partial<Lines> & { progress?: Lines['progress'][number] }
    lines.rows.push(...rows)
    if (progress !== undefined) lines.progress.push(progress)
    Object.assign(lines, line)
  }
  return lines
}

t.test('values come as they are, whatever a double would make of them', async (t) => {
  const { run } = shared

  const { columns, rows, end } = await run(`
    SELECT toUInt64(18446744073709551615) AS big, toDecimal128('12345678901234567890.55', 2) AS money, 0.1 AS share, NULL AS nothing,
      [toInt64(9007199254740993)] AS list, map('a', toUInt64(1)) AS pairs, nan AS odd, 'a\\tb "c" <i>' AS text`)

  t.same(columns, [
    ['big', 'money', 'share', 'nothing', 'list', 'pairs', 'odd', 'text'],
    ['UInt64', 'Decimal(38, 2)', 'Float64', 'Nullable(Nothing)', 'Array(Int64)', 'Map(String, UInt64)', 'Float64', 'String']
  ])
  t.same(rows, [['18446744073709551615', '12345678901234567890.55', 0.1, null, ['9007199254740993'], { a: '1' }, 'nan', 'a\tb "c" <i>']])
  t.match(end, { rows: 1, cut: null })
  t.ok(end!.ms > 0 && end!.bytes > 100)
})

t.test('parameters, comments, a format and a semicolon of their own are taken', async (t) => {
  const { run } = shared
  const query = 'SELECT {name:String} AS name, {project:UInt32} + 1 AS next -- FORMAT\n FORMAT CSV SETTINGS max_threads = 1;'

  t.same((await run(query, { parameters: { name: "o'\\n\n\t{x}", project: '1' } })).rows, [["o'\\n\n\t{x}", '2']])
  t.same((await run('SELECT 1 AS format')).rows, [[1]])
  t.same((await run('EXPLAIN SELECT 1')).columns, [['explain'], ['String']])
  t.ok((await run('DESCRIBE events')).rows.some(([name]) => name === 'distinct_id'))
})

t.test('a result is cut at its row and byte limits, and says so', async (t) => {
  const { run } = shared

  const rows = await run('SELECT number FROM numbers(1000000000)', { max_rows: 5 })
  const bytes = await run("SELECT repeat('x', 1000000) AS wide FROM numbers(12)")
  const one = await run('SELECT toString(groupArray(number)) AS wider FROM numbers(1300000)')

  t.same(rows.rows, [['0'], ['1'], ['2'], ['3'], ['4']])
  t.match(rows.end, { rows: 5, cut: 'rows' })
  t.match(bytes.end, { rows: 8, cut: 'bytes' })
  t.match(one.end, { rows: 0, cut: 'bytes' })
  t.match((await run('SELECT number FROM numbers(5)', { max_rows: 5 })).end, { rows: 5, cut: null })
  t.match((await run('SELECT 1 WHERE 0')).end, { rows: 0, cut: null })
})

t.test('an error says what it is, where, and what to do', async (t) => {
  const { run } = shared
  const errorOf = async (query: string): Promise<Lines['error']> => (await run(query)).error

  t.match(await errorOf('\n-- ä\nSELECT 1 +, 2'), { code: 62, name: 'SYNTAX_ERROR', detail: /^Syntax error: failed at position 20/, position: 20 })
  t.match(await errorOf('SELECT 1 AS'), { code: 62, position: 12 })
  t.match(await errorOf('SELECT * FROM nowhere'), { code: 60, advice: /SHOW TABLES/, position: null })
  t.match(await errorOf('SELECT nothing FROM events'), { code: 47, advice: /columns/ })
  t.match(await errorOf('SELECT {project:UInt32}'), { code: 456, advice: /parameter/ })
  t.match(await errorOf('TRUNCATE TABLE events'), { code: 164, advice: /only read/ })
  t.match(await errorOf("SELECT * FROM file('/etc/passwd')"), { code: 497, advice: /login for analysts/ })
  t.match(await errorOf("SELECT * FROM url('http://127.0.0.1:1/', CSV)"), { code: 497 })
  t.match(await errorOf('SELECT sleepEachRow(1) FROM numbers(5) SETTINGS max_execution_time = 1'), { code: Number, advice: String })
  t.match(await errorOf('SELECT groupArray(number) FROM numbers(100000000) SETTINGS max_memory_usage = 10000000'), { code: 241, advice: /^Limit of memory/ })
  t.match(await errorOf(`${LONG} SETTINGS max_execution_time = 1`), { code: 159, advice: /^Limit of time/ })
  const late = await run('SELECT number, throwIf(number = 9000) FROM numbers(20000) SETTINGS max_block_size = 1000', { max_rows: 10_000 })
  t.match(late.error, { code: 395 }, 'also when rows have come before')
})

t.test('progress comes while a query runs, and cancelling ends the query in ClickHouse', async (t) => {
  const { api, client, post } = shared
  const stop = new AbortController()
  const response = await post('', { query: LONG }, { signal: stop.signal })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  await waitFor(async () => {
    text += (await reader.read()).value ?? ''
    return /"read_rows":[1-9]/.test(text)
  })
  const [first] = text.split('\n')
  const { query_id: id } = JSON.parse(first!) as { query_id: string }
  const running = async (): Promise<unknown[]> => await (await client.query({
    query: 'SELECT user FROM system.processes WHERE query_id = {id:String}', query_params: { id }, format: 'JSONEachRow'
  })).json()
  t.same(await running(), [{ user: 'analyst' }])

  stop.abort()

  // A stream that is piped ends only when somebody reads what waits in it.
  for (let isOver = false; !isOver;) isOver = (await reader.read().catch(() => ({ done: true }))).done
  await waitFor(async () => (await running()).length === 0)
  const log = async (): Promise<unknown[]> => await (await client.query({
    query: "SELECT exception_code, log_comment FROM system.query_log WHERE query_id = {id:String} AND type != 'QueryStart'",
    query_params: { id }, format: 'JSONEachRow'
  })).json()
  await client.command({ query: 'SYSTEM FLUSH LOGS' })
  t.match(await log(), [{ exception_code: 394, log_comment: `management API, user ${api.user.id}` }], 'the log knows who asked')
})

t.test('one key runs two queries at once, and gives their places back', async (t) => {
  const { post, run } = shared
  const stop = new AbortController()
  const running = await Promise.all([post('', { query: LONG }, { signal: stop.signal }), post('', { query: LONG }, { signal: stop.signal })])
  t.same(running.map(({ status }) => status), [200, 200])

  const third = await post('', { query: 'SELECT 1' })

  t.equal(third.status, 429)
  t.match(await third.json(), { code: 'throttled', detail: /2 of your queries/ })
  stop.abort()
  const rows = await waitFor(async () => {
    const answer = await run('SELECT 1')
    return answer.rows.length > 0 && answer.rows
  })
  t.same(rows, [[1]])
})

t.test('only a key for all projects runs SQL, with the scope', async (t) => {
  const { createKey, post, get, api } = shared
  const status = async (key: string): Promise<number[]> => [
    (await post('', { query: 'SELECT 1' }, { key })).status,
    (await post('/download', { query: 'SELECT 1', format: 'csv' }, { key })).status,
    (await get('/tables', key)).status
  ]

  t.same(await status(await createKey({ scopes: ['query:read'], projectIds: null })), [200, 200, 200])
  t.same(await status(await createKey({ scopes: ['event:read', 'person:read'], projectIds: null })), [403, 403, 403])
  t.same(await status(await createKey({ scopes: ['*'], projectIds: [api.projectId] })), [403, 403, 403], 'not for one project')
  t.same(await status('phx_guessed'), [401, 401, 401])
})

t.test('invalid queries are refused with the name of the field', async (t) => {
  const { post } = shared
  const attrOf = async (body: unknown, path = ''): Promise<unknown> => {
    const response = await post(path, body)
    return [response.status, (await response.json() as { attr: unknown }).attr]
  }

  t.same(await attrOf({}), [400, 'query'])
  t.same(await attrOf({ query: '' }), [400, 'query'])
  t.same(await attrOf({ query: 'x'.repeat(100_001) }), [400, 'query'])
  t.same(await attrOf({ query: 'SELECT 1', max_rows: 10_001 }), [400, 'max_rows'])
  t.same(await attrOf({ query: 'SELECT 1', parameters: { a: 1 } }), [400, 'parameters__a'])
  t.equal((await post('', { query: 'SELECT 1', parameters: { 'a b': '1' } })).status, 400)
  t.same(await attrOf({ query: 'SELECT 1', settings: {} }), [400, 'settings'])
  t.same(await attrOf({ query: 'SELECT 1', format: 'native' }, '/download'), [400, 'format'])
})

t.test('a result is downloaded whole as CSV and as Parquet, or not at all', async (t) => {
  const { post } = shared
  const query = 'SELECT number AS n, concat(\'"\', toString(number)) AS text FROM numbers(20000)'
  const sent = 'SELECT \'=HYPERLINK("http://x","y")\' AS event, -1 AS n, toString(-1) AS text'

  const csv = await post('/download', { query, format: 'csv' })
  t.equal(await (await post('/download', { query: sent, format: 'csv' })).text(),
    '"event","n","text"\n"\'=HYPERLINK(""http://x"",""y"")",-1,"\'-1"\n', 'what anybody sends is no formula')
  const parquet = await post('/download', { query, format: 'parquet' })
  const failed = await post('/download', { query: 'SELECT throwIf(number = 15000) FROM numbers(20000)', format: 'csv' })

  t.equal(csv.headers.get('content-disposition'), 'attachment; filename="result.csv"')
  const lines = (await csv.text()).trim().split('\n')
  t.equal(lines.length, 20_001)
  t.same([lines[0], lines[2]], ['"n","text"', '1,"""1"'])
  const bytes = Buffer.from(await parquet.arrayBuffer())
  t.equal(bytes.subarray(0, 4).toString(), 'PAR1')
  t.equal(bytes.subarray(-4).toString(), 'PAR1')
  t.match([failed.status, await failed.json()], [400, { code: 'query_failed', attr: 'query' }])
})

t.test('the tables of analysts come with their columns, types and comments', async (t) => {
  const { get } = shared

  const { results: tables } = await (await get('/tables')).json() as { results: { name: string, comment: string, columns: { name: string, type: string, comment: string }[] }[] }

  const events = tables.find(({ name }) => name === 'events')!
  t.ok(events.comment.length > 10)
  t.match(events.columns.find(({ name }) => name === 'project_id'), { type: 'UInt32', comment: /roject/ })
  t.ok(tables.every(({ name }) => !name.startsWith('.')))
})

t.test('without a login, without ClickHouse, and with something else in its place, the error names the reason', async (t) => {
  const proxy = http.createServer((_, response) => { response.writeHead(502).end('<h1>Bad gateway</h1>') }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => proxy.close())
  const apis = await Promise.all(['http://analyst:secret@127.0.0.1:9/none', `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/`].map(async (url) => await startApi(t, url)))

  for (const { run, get, post } of apis) {
    const { error } = await run('SELECT 1')
    t.match(error, { code: 0, name: 'NO_ANSWER', advice: /Health/ })
    t.notMatch(JSON.stringify(error), /secret|gateway/)
    t.match([(await get('/tables')).status, (await post('/download', { query: 'SELECT 1', format: 'csv' })).status], [503, 503])
  }
  const without = await startApi(t, '')
  const refused = await without.post('', { query: 'SELECT 1' })
  t.match([refused.status, await refused.json()], [503, { code: 'sql_not_set_up', detail: /MILLRACE_CLICKHOUSE_ANALYST_URL/ }])
})
