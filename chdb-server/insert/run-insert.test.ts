import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import http from 'node:http'
import zlib from 'node:zlib'
import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { spoolFolders } from '../engine/body-spool.ts'
import { type HttpAnswer, startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
const count = async (table: string): Promise<number> => Number((await server.ask(`SELECT count() FROM ${table}`)).text)

/** The settings of the pipeline's inserts: see insert-frames.ts there. */
const PINNED = {
  async_insert: '0',
  input_format_parallel_parsing: '0',
  max_insert_block_size: '2000000',
  max_insert_block_size_bytes: '0',
  deduplicate_insert: 'enable',
  deduplicate_blocks_in_dependent_materialized_views: '1'
}

async function createEvents (): Promise<{ table: string, volumes: string }> {
  const table = `shop.e_${randomUUID().replaceAll('-', '')}`
  const volumes = `${table}_volumes`
  const window = 'SETTINGS non_replicated_deduplication_window = 100'
  await server.ask(`CREATE TABLE ${table} (id UUID, event LowCardinality(String), properties String, at DateTime64(3),
    added String DEFAULT 'default') ENGINE MergeTree PARTITION BY toYYYYMM(at) ORDER BY id ${window}`)
  await server.ask(`CREATE TABLE ${volumes} (event LowCardinality(String), volume UInt64) ENGINE SummingMergeTree ORDER BY event ${window}`)
  await server.ask(`CREATE MATERIALIZED VIEW ${table}_view TO ${volumes} AS SELECT event, count() AS volume FROM ${table} GROUP BY event`)
  return { table, volumes }
}

/** A zstd frame of one Native block, as ingest makes them; the engine itself encodes it here. */
async function makeFrame (rows: number, seed: number): Promise<Buffer> {
  const answer = await server.ask(`SELECT reinterpretAsUUID(sipHash128(number, ${seed})) AS id, toLowCardinality(['a', 'b', 'c'][1 + number % 3]) AS event,
    repeat('{"x":"\n\n"}', 10) AS properties, toDateTime64('2026-01-31 23:59:59', 3) + number AS at FROM numbers(${rows}) FORMAT Native`)
  return zlib.zstdCompressSync(answer.bytes)
}

async function insertFrames (table: string, frames: Buffer[], token: string): Promise<HttpAnswer> {
  return await server.ask(`INSERT INTO ${table} FORMAT Native`, {
    body: Buffer.concat(frames),
    headers: { 'content-encoding': 'zstd' },
    params: { ...PINNED, insert_deduplication_token: token }
  })
}

t.test('inserts concatenated frames once, whatever the number of tries, and feeds views once', async (t) => {
  const { table, volumes } = await createEvents()
  const frames = await Promise.all([1, 2, 3, 4].map(async (seed) => await makeFrame(500, seed)))

  const first = await insertFrames(table, frames, 'events:0:1-4')
  await insertFrames(table, frames, 'events:0:1-4')
  await insertFrames(table, [await makeFrame(7, 5)], 'events:0:5-5')
  await insertFrames(table, frames, 'events:0:1-4')

  t.match(first, { status: 200, text: '' })
  t.match(JSON.parse(String(first.headers['x-clickhouse-summary'])), { written_rows: '2000' })
  t.equal(await count(table), 2007)
  t.equal((await server.ask(`SELECT sum(volume) FROM ${volumes}`)).text, '2007\n')
  t.equal((await server.ask(`SELECT DISTINCT added FROM ${table}`)).text, 'default\n')
})

t.test('stores what it gave, in every format that goes both ways', async (t) => {
  await server.ask(`CREATE TABLE shop.source (a UInt32, b String, c Array(Nullable(String)), d DateTime64(3, 'UTC'), e LowCardinality(String))
    ENGINE MergeTree ORDER BY a`)
  await server.ask(`INSERT INTO shop.source SELECT number, concat('x\\n\\n; DROP TABLE shop.source; -- ''"\\t\\0', toString(number)),
    [toString(number), NULL, ''], toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + number, toString(number % 5) FROM numbers(1000)`)
  const formats = (await server.ask('SELECT name FROM system.formats WHERE is_input AND is_output ORDER BY name')).text.trim().split('\n')
  // Formats that need a schema, one column, a template, or that lose types by design.
  const apart = /^(Avro|Geo|Buffers|CapnProto|Custom|LineAsString|MySQLWire|Npy|ODBC|Postgre|Proto|Raw|Regexp|TabSeparatedRaw|Template|TSVRaw|TSKV$|JSONCompactColumns|PNG|Form|Hash|Prometheus|BSON|ORC|MsgPack)/
  for (const format of formats.filter((name) => !apart.test(name))) {
    const body = (await server.ask(`SELECT * FROM shop.source FORMAT ${format}`)).bytes
    await server.ask('CREATE OR REPLACE TABLE shop.copy AS shop.source')
    const answer = await server.ask(`INSERT INTO shop.copy FORMAT ${format}`, { body })
    const same = await server.ask('SELECT count() FROM (SELECT * FROM shop.source INTERSECT SELECT * FROM shop.copy)')
    t.match([answer.status, same.text], [200, '1000\n'], `${format} ${answer.text}`)
  }
  t.equal(await count('shop.source'), 1000)
})

t.test('takes statement and rows together in the body, and rows in both places', async (t) => {
  await server.ask('CREATE TABLE shop.b (a UInt32, b String) ENGINE MergeTree ORDER BY a')
  const binary = (await server.ask("SELECT toUInt32(10), 'x;\n\ny' FORMAT RowBinary")).bytes

  await server.ask("INSERT INTO shop.b VALUES (1, 'a;b'), (2, '''\n\nDROP TABLE shop.b\n\n')")
  await server.ask('INSERT INTO shop.b FORMAT JSONEachRow\n{"a":3}\n\n{"a":4}\n\n\nDROP TABLE shop.b')
  await server.ask('', { body: Buffer.concat([Buffer.from('INSERT INTO shop.b FORMAT RowBinary\n'), binary]) })
  await server.ask('INSERT INTO shop.b VALUES (11, \'\'),', { body: "(12, '')" })
  await server.ask('INSERT INTO shop.b (a)', { body: ' SETTINGS max_insert_block_size = 10 FORMAT CSV\n13\n' })
  await server.ask('', { body: zlib.gzipSync('INSERT INTO shop.b FORMAT TSV\n14\tx\n'), headers: { 'content-encoding': 'gzip' } })
  await server.ask('INSERT INTO {t:Identifier}.b VALUES (15, \'\')', { params: { param_t: 'shop' } })
  await server.ask(`INSERT INTO shop.b VALUES ${Array.from({ length: 50_000 }, (_, i) => `(${100 + i}, 'value number ${i}')`).join()}`)

  const rows = (await server.ask('SELECT a FROM shop.b WHERE a < 100 ORDER BY a')).text.trim().split('\n')
  t.same(rows, ['1', '2', '10', '11', '12', '13', '14', '15'])
  t.equal(await count('shop.b'), 50_008)
})

t.test('reads rows in the compressions of HTTP', async (t) => {
  await server.ask('CREATE TABLE shop.z (a String) ENGINE MergeTree ORDER BY a')
  const { gzipSync: gzip, deflateSync: deflate, brotliCompressSync: br, zstdCompressSync: zstd } = zlib
  for (const [name, encode] of Object.entries({ gzip, deflate, br, zstd, identity: (body: Buffer) => body })) {
    const body = encode(Buffer.from(`${name}\n`.repeat(1000)))
    t.match(await server.ask('INSERT INTO shop.z FORMAT CSV', { body, headers: { 'content-encoding': name } }), { status: 200 }, name)
  }
  t.match(await server.ask('INSERT INTO shop.z FORMAT CSV', { body: 'x', headers: { 'content-encoding': 'pack200' } }), { code: 344 })
  t.ok((await server.ask('INSERT INTO shop.z FORMAT CSV', { body: 'no zstd', headers: { 'content-encoding': 'zstd' } })).code > 0)
  t.equal(await count('shop.z'), 5000)
})

t.test('tells what is wrong with rows, and stores none of them', async (t) => {
  await server.ask('CREATE TABLE shop.w (a UInt32) ENGINE MergeTree ORDER BY a')
  const insert = async (body: string, format = 'JSONEachRow'): Promise<HttpAnswer> =>
    await server.ask(`INSERT INTO shop.w FORMAT ${format}`, { body, params: PINNED })

  t.match(await insert('{"a":1}\n{"a":"x"}\n'), { status: 400, text: /at row 2/ })
  t.match(await insert('{"a":1}\n{"a":'), { code: /[1-9]/ })
  t.match(await insert('1', 'Nope'), { status: 404, code: 73 })
  t.match(await insert('1\n2,3\n', 'CSV'), { status: 400 })
  t.match(await insert('nonsense', 'Native'), { code: /[1-9]/ })
  t.match(await server.ask('INSERT INTO shop.nope FORMAT CSV', { body: '1' }), { status: 404, code: 60 })
  t.match(await server.ask('INSERT INTO shop.w (b) FORMAT CSV', { body: '1' }), { code: 16 })
  t.match(await server.ask("INSERT INTO shop.w SELECT a FROM input('a UInt32') FORMAT CSV", { body: '1' }), { code: 344 })
  t.match(await insert(''), { status: 200 })
  t.equal(await count('shop.w'), 0)
})

t.test('stores nothing of a body whose sender goes away', async (t) => {
  await server.ask('CREATE TABLE shop.gone (a UInt32) ENGINE MergeTree ORDER BY a')
  const request = http.request({
    port: server.port,
    method: 'POST',
    path: '/?query=INSERT+INTO+shop.gone+FORMAT+CSV',
    headers: { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner, 'content-length': 1_000_000 }
  })
  request.on('error', () => {})
  await waitFor(() => listSpool().length === 0)
  request.write('1\n'.repeat(200_000))
  await waitFor(() => listSpool().length > 0, { everyMs: 1 })
  request.destroy()
  await new Promise((resolve) => request.once('close', resolve))
  await waitFor(() => listSpool().length === 0)

  t.equal(await count('shop.gone'), 0)
})

t.test('leaves no file of any insert behind', async (t) => {
  // A file is removed a moment after its insert was answered.
  await waitFor(() => listSpool().length === 0).catch(() => {})
  t.same(listSpool(), [])
})

t.test('inserts while analysts keep every session of theirs busy', async (t) => {
  const { table } = await createEvents()
  const frames = [await makeFrame(2000, 9)]
  const ids = Array.from({ length: 6 }, (_, i) => `heavy-${i}`)
  const heavy = ids.map(async (id) =>
    await server.ask('SELECT sum(cityHash64(number)) FROM system.numbers', { user: 'analyst', params: { query_id: id } }))

  // Whoever waited for one of these queries would wait for ever.
  for (let i = 0; i < 10; i++) t.equal((await insertFrames(table, frames, `t${i}`)).status, 200)
  for (const id of ids) await server.ask(`KILL QUERY WHERE query_id = '${id}'`)
  t.same((await Promise.all(heavy)).map(({ code }) => code), ids.map(() => 394), 'all were busy until then')
})

t.test('no insert begins while a client holds them, and all are done afterwards', async (t) => {
  await server.ask('CREATE TABLE held (n UInt32) ENGINE = MergeTree ORDER BY n')
  const hold = await openHold('owner')
  t.equal(hold.status, 200)
  const reader = hold.body!.getReader()
  t.equal(new TextDecoder().decode((await reader.read()).value), 'held\n')

  const inserts = Array.from({ length: 8 }, async (_, n) =>
    await server.ask('', { params: { query: 'INSERT INTO held FORMAT TSV' }, body: `${n}\n` }))
  t.equal(await countWhile(), '0')
  await reader.cancel()

  for (const answer of await Promise.all(inserts)) t.equal(answer.status, 200)
  t.equal((await server.ask('SELECT count() FROM held')).text.trim(), '8')
})

t.test('several clients hold inserts one after the other', async (t) => {
  const take = async (): Promise<ReadableStreamDefaultReader> => {
    const reader = (await openHold('owner')).body!.getReader()
    await reader.read()
    return reader
  }
  const first = await take()
  const others = [take(), take()]
  // Both wait by then: the answer to a later request comes behind theirs.
  await countWhile()
  await first.cancel()
  const second = await Promise.race(others)
  await second.cancel()
  for (const reader of await Promise.all(others)) await reader.cancel()

  t.equal((await server.ask('', { params: { query: 'INSERT INTO held FORMAT TSV' }, body: '9\n' })).status, 200)
})

t.test('analysts cannot hold inserts', async (t) => {
  const hold = await openHold('analyst')

  t.not(hold.status, 200)
  t.match(await hold.text(), /Code: 164/)
})

/** Asks several times, so that an insert that was let through would be seen. */
async function countWhile (): Promise<string> {
  let count = ''
  for (let i = 0; i < 20; i++) count = (await server.ask('SELECT count() FROM held')).text.trim()
  return count
}

async function openHold (user: keyof typeof TEST_PASSWORDS): Promise<Response> {
  return await fetch(`http://127.0.0.1:${server.port}/hold-inserts`, {
    method: 'POST', headers: { 'x-clickhouse-user': user, 'x-clickhouse-key': TEST_PASSWORDS[user] }
  })
}

function listSpool (): string[] {
  const folders = spoolFolders(server.dataDir)
  return folders.flatMap((folder) => readdirSync(folder)).filter((name) => name.startsWith('body-'))
}
