/**
 * What clients of BI tools send first, byte for byte, written from their sources, as the tools themselves cannot run
 * here:
 *
 * - clickhouse-go 2.48.0 over HTTP, `conn_http.go` (dialHttp, queryHello, query), with gzip as the official Grafana
 *   plugin sets it (grafana/clickhouse-datasource, `pkg/plugin/driver.go`), and with LZ4;
 * - the Java client v2, under JDBC (ClickHouse/clickhouse-java f3c6f971, `HttpAPIClientHelper.java`, `Client.java`);
 * - clickhouse-connect 842e4131 (`driver/_backend/orchestration.py`, `httpcommon.py`).
 */
import { once } from 'node:events'
import { createConnection } from 'node:net'
import { buffer } from 'node:stream/consumers'
import zlib from 'node:zlib'
import t from 'tap'
import { readBlocks } from '../testing/read-blocks.ts'
import { startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
await server.ask('CREATE TABLE shop.events (uuid UUID, timestamp DateTime64(3, \'UTC\'), event LowCardinality(String)) ENGINE MergeTree ORDER BY timestamp')
await server.ask("INSERT INTO shop.events VALUES ('61f0c404-5cb3-11e7-907b-a6006ad3dba0', '2026-01-31 12:00:00.120', 'paid')")
const BASIC = Buffer.from(`analyst:${TEST_PASSWORDS.analyst}`).toString('base64')
const BLOCK_HEAD = '010002ffffffff00'

interface Replayed {
  status: number
  head: string
  body: Buffer
}

/** Sends the bytes and reads one answer to its end; the server closes because the request asks for it. */
async function replay (lines: string[], body: string): Promise<Replayed> {
  const socket = createConnection(server.port, '127.0.0.1')
  await once(socket, 'connect')
  const host = `127.0.0.1:${server.port}`
  const head = lines.map((line) => line.replace('{host}', host).replace('{length}', String(Buffer.byteLength(body))))
  socket.write([...head, 'Connection: close', '', body].join('\r\n'))
  const bytes = await buffer(socket)
  const end = bytes.indexOf('\r\n\r\n')
  const answered = bytes.toString('latin1', 0, end)
  const isChunked = /transfer-encoding: chunked/i.test(answered)
  const rest = bytes.subarray(end + 4)
  return { status: Number(answered.split(' ')[1]), head: answered, body: isChunked ? joinChunks(rest) : rest }
}

function joinChunks (bytes: Buffer): Buffer {
  const chunks: Buffer[] = []
  for (let at = 0; ;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 4 + size
  }
}

function undo (bytes: Buffer): string {
  return readBlocks(bytes).toString('latin1')
}

const goHeaders = (extra: string[] = []): string[] => [
  'Host: {host}', 'User-Agent: clickhouse-go/2.48.0 (lv:go/1.24.6; os:linux)', 'Content-Length: {length}', `Authorization: Basic ${BASIC}`, ...extra
]

t.test('Grafana: says hello and reads events, as Native in gzip', async (t) => {
  const path = '/?client_protocol_version=54460&database=shop&default_format=Native'
  const gzip = goHeaders(['Accept-Encoding: gzip'])
  const hello = await replay([`POST ${path} HTTP/1.1`, ...gzip], 'SELECT displayName(), version(), revision(), timezone()')
  const settings = 'client_protocol_version=54460&database=shop&default_format=Native&enable_http_compression=1&max_execution_time=60'
  const query = 'SELECT toStartOfInterval(toDateTime(timestamp), INTERVAL 20 second) as time, count() FROM events WHERE timestamp >= toDateTime(1769800000) GROUP BY time ORDER BY time ASC LIMIT 1000'
  const rows = await replay([`POST /?${settings} HTTP/1.1`, ...gzip], query)

  t.equal(hello.status, 200)
  // One block of four columns and one row; the first is called displayName(), a String, and written plainly.
  t.ok(hello.body.toString('hex').startsWith(`${BLOCK_HEAD}04010d${Buffer.from('displayName()').toString('hex')}06537472696e6700`))
  t.match(rows.head, /content-encoding: gzip/i)
  const native = zlib.gunzipSync(rows.body)
  t.ok(native.toString('hex').startsWith(`${BLOCK_HEAD}02010474696d65`))
  t.ok(native.toString('latin1').endsWith(`count()\x06UInt64\x00\x01${'\x00'.repeat(7)}`))
})

t.test('clickhouse-go with LZ4: reads events and errors in blocks', async (t) => {
  const path = '/?client_protocol_version=54460&compress=1&database=shop&default_format=Native'
  const events = await replay([`POST ${path} HTTP/1.1`, ...goHeaders()], 'SELECT uuid, timestamp, event FROM events')
  const error = await replay([`POST ${path} HTTP/1.1`, ...goHeaders()], 'SELECT nope')

  const native = undo(events.body)
  t.ok(Buffer.from(native, 'latin1').toString('hex').startsWith(`${BLOCK_HEAD}030104${Buffer.from('uuid').toString('hex')}0455554944` + '00'))
  t.ok(native.includes('LowCardinality(String)') && native.includes('paid'))
  t.equal(error.status, 404)
  t.match(undo(error.body), /^Code: 47\. /)
})

t.test('JDBC: connects, describes and reads RowBinary in LZ4 blocks', async (t) => {
  const jdbc = (format: string): string[] => [
    'POST /?compress=1 HTTP/1.1', 'Content-Type: text/plain; charset=UTF-8', `X-ClickHouse-Format: ${format}`, 'X-ClickHouse-Database: shop',
    'X-ClickHouse-User: analyst', `X-ClickHouse-Key: ${TEST_PASSWORDS.analyst}`,
    'User-Agent: jdbc-v2/0.9.5 clickhouse-java-v2/0.9.5 (Linux; jvm:17.0.12) Apache-HttpClient/5.4.4', 'Host: {host}', 'Content-Length: {length}'
  ]
  const hello = await replay(jdbc('RowBinaryWithNamesAndTypes'), 'SELECT currentUser() AS user, timezone() AS timezone, version() AS version LIMIT 1')
  const described = await replay(jdbc('RowBinaryWithNamesAndTypes'), 'DESCRIBE TABLE events FORMAT TSKV')
  const rows = await replay(jdbc('RowBinaryWithNamesAndTypes'), 'SELECT event FROM events')
  const change = await replay(jdbc('RowBinaryWithNamesAndTypes'), 'TRUNCATE TABLE events')

  t.match(hello.head, /X-ClickHouse-Format: RowBinaryWithNamesAndTypes/)
  const names = '\x03\x04user\x08timezone\x07version\x06String\x06String\x06String'
  t.ok((undo(hello.body)).startsWith(`${names}\x07analyst\x07Etc/UTC`))
  t.match(undo(described.body), /name=uuid\ttype=UUID/)
  t.equal(undo(rows.body), '\x01\x05event\x16LowCardinality(String)\x04paid')
  t.match(change.head, /^HTTP\/1\.1 5\d\d|X-ClickHouse-Exception-Code: 164/s)
})

t.test('clickhouse-connect: connects, finds that revisions are understood, reads Native', async (t) => {
  const connect = (path: string): string[] => [
    `POST ${path} HTTP/1.1`, 'Host: {host}', 'Accept-Encoding: lz4,zstd,br,gzip', 'Content-Length: {length}',
    `Authorization: Basic ${BASIC}`, 'User-Agent: clickhouse-connect/0.10.0 (lv:py/3.12.3; mode:sync; os:linux)', 'Content-Type: text/plain; charset=utf-8'
  ]
  const version = await replay(connect('/?database=shop'), 'SELECT version(), timezone()')
  const settings = await replay(connect('/?database=shop'), 'SELECT name, value, readonly FROM system.settings LIMIT 10000\n FORMAT Native')
  const probe = await replay(connect('/?client_protocol_version=54405&database=shop'), 'SELECT 1 AS check\n FORMAT Native')
  const progress = 'client_protocol_version=54405&enable_http_compression=1&wait_end_of_query=1&send_progress_in_http_headers=1&http_headers_progress_interval_ms=120000'
  const rows = await replay(connect(`/?${progress}&database=shop`), 'SELECT event FROM events\n FORMAT Native')

  t.match(version.body.toString(), /^[\d.]+\tEtc\/UTC\n$/)
  t.ok(settings.body.length > 10_000)
  t.equal(probe.body.subarray(8, 16).toString('latin1'), '\x01\x01\x05check')
  t.match(rows.head, /content-encoding: zstd/i)
  const native = zlib.zstdDecompressSync(rows.body).toString('latin1')
  t.ok(native.includes('\x05event\x16LowCardinality(String)') && native.includes('paid'))
})
