import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import zlib from 'node:zlib'
import t from 'tap'
import { readBlocks } from '../testing/read-blocks.ts'
import { startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'
import { LINEAR_GROWTH, measureGrowth } from '../testing/cpu-time.ts'
import { readAccepted } from './answer.ts'

const server = await startTestServer(t)
interface PlainAnswer { status: number, text: string, headers: http.IncomingHttpHeaders }

const get = async (path: string, headers: http.OutgoingHttpHeaders = {}): Promise<PlainAnswer> => {
  const request = http.get({ host: '127.0.0.1', port: server.port, path, headers })
  const [response] = await once(request, 'response') as [http.IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { status: response.statusCode!, text: Buffer.concat(chunks).toString(), headers: response.headers }
}

t.test('answers health checks without a login', async (t) => {
  for (const path of ['/ping', '/replicas_status', '/']) t.match(await get(path), { status: 200, text: 'Ok.\n' }, path)
  t.match(await get('/play'), { status: 404 })
})

t.test('knows three ways to log in', async (t) => {
  const secret = encodeURIComponent(TEST_PASSWORDS.owner)
  const basic = `Basic ${Buffer.from(`owner:${TEST_PASSWORDS.owner}`).toString('base64')}`

  t.match(await get('/?query=SELECT+1', { authorization: basic }), { status: 200, text: '1\n' })
  t.match(await get(`/?query=SELECT+1&user=owner&password=${secret}`), { status: 200, text: '1\n' })
  t.match(await server.ask('SELECT 1'), { status: 200, text: '1\n' })
})

t.test('refuses other logins with 403 and code 516', async (t) => {
  const refused = {
    status: 403,
    headers: { 'x-clickhouse-exception-code': '516' },
    text: /^Code: 516\. DB::Exception: .*\(AUTHENTICATION_FAILED\)/
  }

  t.match(await get('/?query=SELECT+1'), refused)
  t.match(await get('/?query=SELECT+1&user=nobody'), refused)
  t.match(await server.ask('SELECT 1', { password: '' }), refused)
  t.match(await server.ask('SELECT 1', { password: 'reader secret' }), refused)
  t.match(await get('/?query=SELECT+1', { authorization: 'Basic !!!' }), refused)
  t.match(await get('/?query=SELECT+1', { authorization: 'Bearer x' }), refused)
})

t.test('takes the query from the URL, the body, or both', async (t) => {
  t.equal((await server.ask('SELECT 2', { method: 'GET' })).text, '2\n')
  t.equal((await server.ask('SELECT 3')).text, '3\n')
  t.equal((await server.ask('SELECT', { body: '4' })).text, '4\n')
  t.match(await server.ask('', { body: '' }), { status: 400, code: 62 })
})

t.test('takes long statements and parameters in the URL', async (t) => {
  const ids = `[${Array.from({ length: 20_000 }, (_, i) => 1_000_000 + i).join()}]`

  t.equal((await server.ask('SELECT length({ids:Array(UInt32)})', { params: { param_ids: ids } })).text, '20000\n')
  t.equal((await server.ask(`SELECT length('${'x'.repeat(200_000)}')`, { method: 'GET' })).text, '200000\n')
})

t.test('backs up and restores a database', async (t) => {
  await server.ask('CREATE DATABASE kept')
  await server.ask('CREATE TABLE kept.t ENGINE MergeTree ORDER BY a AS SELECT number AS a FROM numbers(1000)')

  t.match(await server.ask("BACKUP DATABASE kept TO File('first')"), { status: 200, text: /BACKUP_CREATED/ })
  await server.ask('DROP DATABASE kept')
  t.match(await server.ask("RESTORE DATABASE kept FROM File('first')"), { status: 200, text: /RESTORED/ })
  t.equal((await server.ask('SELECT sum(a) FROM kept.t')).text, '499500\n')
  t.match(await server.ask("BACKUP DATABASE kept TO File('/tmp/elsewhere')"), { status: 400, code: 36 })
})

t.test('tells what a server tells in its headers', async (t) => {
  const { headers } = await server.ask('SELECT number FROM system.numbers LIMIT 5 FORMAT CSVWithNames', { params: { query_id: 'q 1' } })

  t.match(headers, {
    'x-clickhouse-query-id': 'q 1',
    'x-clickhouse-format': 'CSVWithNames',
    'x-clickhouse-timezone': /./,
    'x-clickhouse-server-display-name': /./,
    'content-type': 'text/csv; charset=UTF-8; header=present'
  })
  t.match(JSON.parse(String(headers['x-clickhouse-summary'])), { read_rows: '5', written_rows: '0', elapsed_ns: /\d+/ })
})

t.test('answers methods, commands and errors with the headers of a server', async (t) => {
  const command = await server.ask('CREATE TABLE shop.headers (a UInt8) ENGINE Memory')
  const error = await server.ask('SELECT nope', { params: { session_timezone: 'Asia/Tokyo' } })
  const broken = await server.ask('INSERT INTO shop.headers FORMAT CSV', { body: 'x' })

  t.equal((await server.ask('SELECT 1', { method: 'PUT' })).status, 501)
  t.match(command.headers, { 'content-type': 'text/plain; charset=UTF-8', 'x-clickhouse-format': undefined })
  t.match(error.headers, { 'x-clickhouse-timezone': 'Asia/Tokyo', 'x-clickhouse-exception-tag': /./, 'access-control-expose-headers': /X-ClickHouse-Query-Id,/ })
  t.notMatch(broken.text, /\/dev\/shm|file\/uri/)
  t.equal((await server.ask('SELECT 1', { params: { default_format: 'CSV' }, headers: { 'x-clickhouse-format': 'TSKV' } })).text, '1=1\n')
})

t.test('answers errors with the status of a server', async (t) => {
  const cases: Array<[string, number, number]> = [
    ['SELECT nope', 404, 47], ['SELEC', 400, 62], ['SELECT 1; SELECT 2', 400, 62], ['SELECT * FROM nope.nope', 404, 81],
    ["SELECT toDate('x')", 400, 38], ['SELECT throwIf(1)', 500, 395], ['SELECT 1 FORMAT Nope', 404, 73],
    ['SELECT count() FROM system.numbers SETTINGS max_execution_time = 1', 408, 159],
    ['SELECT * FROM numbers(100000000) ORDER BY rand() SETTINGS max_memory_usage = 1000000', 500, 241],
    ["SELECT 1 INTO OUTFILE '/x'", 500, 344]
  ]
  for (const [query, status, code] of cases) t.match(await server.ask(query), { status, code }, query)
  t.match(await server.ask('SELECT 1', { params: { max_treads: '1' } }), { status: 404, code: 115 })
  t.match(await server.ask('SELECT 1', { params: { 'a=1, readonly': '0' } }), { status: 404, code: 115 })
  t.match(await server.ask('SELECT 1', { params: { max_threads: "1', readonly = '1" } }), { code: /\d/ })
  t.match(await server.ask('SELECT 1', { params: { database: 'a`; DROP DATABASE shop; --' } }), { status: 404, code: 81 })
  t.match(await server.ask('SELECT 1', { params: { role: 'r' } }), { code: 511 })
  t.match(await server.ask('SELECT 1', { params: { query_id: 'a\r\nSet-Cookie: b' } }), { status: 400, code: 36 })
  t.match(await server.ask('SELECT 1', { params: { session_timezone: 'Mars/Base' } }), { status: 400, code: 36 })
  t.match(await server.ask('SELECT 1', { params: { 'param_a b': '1' } }), { status: 400, code: 36 })
  t.equal((await server.ask('SELECT 1')).text, '1\n')
})

t.test('reads and never writes by GET', async (t) => {
  t.match(await server.ask('CREATE TABLE shop.g (a UInt8) ENGINE Memory', { method: 'GET' }), { status: 500, code: 164 })
  t.match(await server.ask('INSERT INTO shop.g VALUES (1)', { method: 'GET' }), { code: 164 })
})

t.test('compresses results as the client accepts, when it asks', async (t) => {
  const query = "SELECT repeat('abc', 1000) FROM numbers(1000)"
  const params = { enable_http_compression: '1' }
  const plain = (await server.ask(query)).bytes
  const { gunzipSync: gzip, inflateSync: deflate, brotliDecompressSync: br, zstdDecompressSync: zstd } = zlib
  for (const [name, decode] of Object.entries({ gzip, deflate, br, zstd })) {
    const answer = await server.ask(query, { headers: { 'accept-encoding': name }, params })
    t.equal(answer.headers['content-encoding'], name)
    t.ok(plain.equals(decode(answer.bytes)), name)
  }
  const uncompressed = await server.ask(query, { headers: { 'accept-encoding': 'gzip' } })
  const unknown = await server.ask(query, { headers: { 'accept-encoding': 'lz4, gzip;q=0' }, params })
  t.equal(uncompressed.headers['content-encoding'], undefined)
  t.equal(unknown.headers['content-encoding'], undefined)
})

t.test('reads of what a client accepts no more than its length', async (t) => {
  t.same([...readAccepted('GZIP;q=0.5, deflate ; q=0.0,br;q=0,zstd')], ['gzip', 'zstd'])
  const growth = measureGrowth((size) => { readAccepted(`zstd${' '.repeat(size)}x`) }, 200_000)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU`)
})

t.test('reads compressed statements', async (t) => {
  const { gzipSync: gzip, deflateSync: deflate, brotliCompressSync: br, zstdCompressSync: zstd } = zlib
  for (const [name, encode] of Object.entries({ gzip, deflate, br, zstd })) {
    const answer = await server.ask('', { body: encode(Buffer.from('SELECT 5')), headers: { 'content-encoding': name } })
    t.equal(answer.text, '5\n', name)
  }
  t.match(await server.ask('', { body: 'no gzip', headers: { 'content-encoding': 'gzip' } }), { status: 500, code: 354 })
  t.match(await server.ask('', { body: 'x', headers: { 'content-encoding': 'lz4' } }), { code: 344 })
})

t.test('gives the same bytes in every output format as one document', async (t) => {
  const formats = (await server.ask('SELECT name FROM system.formats WHERE is_output ORDER BY name')).text.trim().split('\n')
  // More blocks than one, and more bytes than a pipe holds.
  const large = 'SELECT number AS n, toString(number) AS s, [number] AS a FROM numbers(10000)'
  // Formats for eyes join the blocks that come within 50 ms, so how many tables they draw depends on the machine.
  const params = { max_block_size: '1000', output_format_pretty_squash_consecutive_ms: '0' }
  const often = /^(CSV|JSON|JSONEachRow|Native|Parquet|Pretty|RowBinary|TabSeparated|Values|XML)/
  for (const format of formats) {
    const query = often.test(format) ? large : 'SELECT number AS n FROM numbers(3)'
    const piped = await server.ask(`${query} FORMAT ${format}`, { params })
    const held = await server.ask(query, { params: { ...params, default_format: format, wait_end_of_query: '1' } })
    t.equal(piped.code, held.code, format)
    if (/JSON|XML/.test(format)) continue
    const [pipedBytes, heldBytes] = [piped.bytes, held.bytes].map(format === 'Avro' ? withoutAvroMarkers : (bytes) => bytes)
    t.ok(pipedBytes!.equals(heldBytes!), format)
  }
  const json = JSON.parse((await server.ask(`${large} FORMAT JSON`, { params })).text)
  t.match(json, { rows: 10_000, meta: [{ name: 'n' }, { name: 's' }, { name: 'a' }] })
  t.equal(json.data.length, 10_000)
})

/** Avro ends its header and each block with 16 bytes that ClickHouse draws again in each second. */
function withoutAvroMarkers (bytes: Buffer): Buffer {
  const text = bytes.toString('latin1')
  return Buffer.from(text.replaceAll(text.slice(-16), ''), 'latin1')
}

t.test('marks an error in the middle of a result, and cuts the connection', async (t) => {
  const socket = net.connect(server.port, '127.0.0.1')
  const query = "SELECT throwIf(number = 5000000, 'boom') FROM numbers(10000000)"
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: owner\r\nX-ClickHouse-Key: ${TEST_PASSWORDS.owner}\r\nContent-Length: ${query.length}\r\n\r\n${query}`)
  let text = ''
  for await (const chunk of socket) text = (text + (chunk as Buffer).toString()).slice(-2000)

  t.match(text, /__exception__\r\n[0-9a-f]{16}\r\nCode: 395\. DB::Exception: boom[^]*\n\d+ [0-9a-f]{16}\r\n__exception__\r\n/)
  t.notMatch(text, /\r\n0\r\n\r\n$/)
})

t.test('marks such an error in every compression, at its end, and cuts the connection there, too', async (t) => {
  const { gunzipSync: gzip, inflateSync: deflate, brotliDecompressSync: br, zstdDecompressSync: zstd } = zlib
  const block = /"number":[^]*__exception__\r\n[0-9a-f]{16}\r\nCode: 395\. DB::Exception: boom[^]*\n\d+ [0-9a-f]{16}\r\n__exception__\r\n$/
  const query = "SELECT number, throwIf(number = 150000, 'boom') AS x FROM numbers(200000) FORMAT JSONEachRow"
  const readCut = async (params: string, encoding = ''): Promise<Buffer> => {
    const request = http.request({
      host: '127.0.0.1', port: server.port, method: 'POST', path: `/?max_block_size=1000&${params}`,
      headers: { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner, 'accept-encoding': encoding }
    })
    request.end(query)
    const [response] = await once(request, 'response') as [http.IncomingMessage]
    const chunks: Buffer[] = []
    response.on('data', (chunk: Buffer) => chunks.push(chunk))
    await t.rejects(once(response, 'end'), { code: 'ECONNRESET' }, `${params} ${encoding} is cut`)
    return Buffer.concat(chunks)
  }
  for (const [name, decode] of Object.entries({ gzip, deflate, br, zstd })) {
    // A cut before the block was a race.
    for (let round = 0; round < 3; round++) t.ok(block.test(decode(await readCut('enable_http_compression=1', name)).toString()), name)
  }
  const blocks = await readCut('compress=1')
  t.ok(block.test(readBlocks(blocks).toString()), 'blocks of ClickHouse itself')
  t.ok(block.test(String(await readCut('send_progress_in_http_headers=1'))), 'after headers of progress')
})

t.test('survives clients that send nonsense or go away', async (t) => {
  const pieces = [
    'GET / HTTP/1.1\r\n', 'nonsense\r\n\r\n', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nSELECT',
    'POST /?query=INSERT+INTO+shop.t+FORMAT+CSV HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'
  ]
  for (const piece of pieces) {
    const socket = net.connect(server.port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(piece, () => socket.destroy())
    await once(socket, 'close')
  }
  const length = net.connect(server.port, '127.0.0.1')
  length.write('POST / HTTP/1.1\r\nHost: x\r\n\r\n')
  const [answer] = await once(length, 'data')
  length.destroy()

  t.match(String(answer), /411 Length Required/)
  t.equal((await server.ask('SELECT 1')).text, '1\n')
})

t.test('reads query and parameters from a form, and text of any length from it', async (t) => {
  const long = 'x'.repeat(300_000)
  const form = new FormData()
  form.append('query', 'SELECT length({text:String}), {n:UInt8}')
  form.append('param_text', long)
  form.append('param_n', '7')
  const request = new Request('http://localhost/', { method: 'POST', body: form })
  const headers = { 'content-type': request.headers.get('content-type')! }
  const body = new Uint8Array(await request.arrayBuffer())

  t.equal((await server.ask('', { body, headers })).text, '300000\t7\n')
  t.equal((await server.ask('', { body, headers, user: 'analyst' })).text, '300000\t7\n')
  const longer = { body: Buffer.concat([body, Buffer.alloc(1_000_000)]), headers, user: 'analyst' }
  t.match(await server.ask('', longer), { code: 229 })
  t.match(await server.ask('SELECT '.padEnd(1_300_000), { user: 'analyst' }), { code: 229 }, 'on the connection of one refused half-way')
  t.match(await server.ask(`INSERT INTO shop.t VALUES ${'(1),'.repeat(300_000)}`, { user: 'analyst' }), { code: 164 })
  t.match(await server.ask('', { body: body.subarray(0, 1000), headers }), { code: 36, status: 400 })
})

t.test('compresses errors as it compresses results, and names the type of an answer to an insert', async (t) => {
  const params = { enable_http_compression: '1' }
  const error = await server.ask('SELECT nope', { params, headers: { 'accept-encoding': 'gzip' } })
  await server.ask('CREATE TABLE shop.typed (a UInt8) ENGINE MergeTree ORDER BY a')
  const insert = await server.ask('INSERT INTO shop.typed FORMAT CSV', { body: '1' })

  t.equal(error.headers['content-encoding'], 'gzip')
  t.match(zlib.gunzipSync(error.bytes).toString(), /^Code: 47/)
  t.equal(insert.headers['content-type'], 'text/plain; charset=UTF-8')
})

t.test('tells the progress in headers while a query runs, when the client wants it', async (t) => {
  const params = { send_progress_in_http_headers: '1', http_headers_progress_interval_ms: '100' }
  const slow = 'SELECT sum(sleepEachRow(0.01)) FROM numbers(130) SETTINGS max_block_size = 10'
  const answer = await server.ask(slow, { params })
  const failed = await server.ask("SELECT sleep(0.5), throwIf(number = 1, 'boom') FROM numbers(2)", { params })
  const silent = await server.ask(slow)

  const progress = String(answer.headers['x-clickhouse-progress']).split(', {').map((part, i) => JSON.parse(i === 0 ? part : `{${part}`) as Record<string, string>)
  t.ok(progress.length > 5)
  t.match(progress.at(-1), { total_rows_to_read: '130', elapsed_ns: /^\d+$/ })
  t.equal(answer.text, '0\n')
  t.match(answer.headers['x-clickhouse-summary'], /"result_rows":"1"/)
  t.match(failed, { status: 200, code: 395, text: /^Code: 395.*boom/ })
  t.equal(silent.headers['x-clickhouse-progress'], undefined)
})
