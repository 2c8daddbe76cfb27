import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import zlib from 'node:zlib'
import t from 'tap'
import { decompressLz4, readBlocks } from '../testing/read-blocks.ts'
import { startTestServer } from '../testing/start-test-server.ts'
import { cityHash128 } from './city-hash.ts'
import { BlockWriter, writeBlock } from './compressed-blocks.ts'
import { createNativeWriter } from './native-blocks.ts'

const server = await startTestServer(t)
const ROWS = `SELECT number AS n, toString(cityHash64(number)) AS s, toLowCardinality(toString(number % 7)) AS k,
  if(number % 3 = 0, NULL, number) AS maybe, [toDate(number), toDate(1)] AS days, map('a', number) AS m,
  tuple(number, toNullable('x')) AS t, toFixedString('abc', 4) AS f, toDecimal64(number, 2) AS d,
  [[toLowCardinality('x')], []] AS nested, toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS u, toIPv4('1.2.3.4') AS ip, CAST('a', 'Enum8(\\'a\\' = 1)') AS e`

t.test('gives the checksums that the engine itself wrote, and reads what it compressed', async (t) => {
  await server.ask('CREATE TABLE shop.parts (a UInt64, s String) ENGINE MergeTree ORDER BY a SETTINGS min_bytes_for_wide_part = 0')
  for (const rows of [1, 3, 14, 200, 100_000]) {
    await server.ask(`INSERT INTO shop.parts
      SELECT number, toString(cityHash64(number)) || repeat('ab', number % 50) FROM numbers(${rows})`)
  }
  let blocks = 0
  for (const file of globSync(path.join(server.dataDir, 'clickhouse', '**', '*.bin'))) {
    const bytes = readFileSync(file)
    for (let at = 0, size = 0; at + 25 < bytes.length && bytes[at + 16] === 0x82; at += size) {
      size = 16 + bytes.readUInt32LE(at + 17)
      t.ok(cityHash128(bytes.subarray(at + 16, at + size)).equals(bytes.subarray(at, at + 16)), `${path.basename(file)} at ${at}`)
      const contents = bytes.readUInt32LE(at + 21)
      t.equal(decompressLz4(bytes.subarray(at + 25, at + size), contents).length, contents)
      blocks++
    }
  }
  t.ok(blocks > 20, `${blocks} blocks`)
})

t.test('writes LZ4 that can be read again', async (t) => {
  for (const length of [0, 1, 14, 15, 16, 269, 270, 271, 525, 70_000]) {
    const bytes = Buffer.from(Array.from({ length }, (_, i) => (Math.imul(i, 2_654_435_761) >>> 13) & 255))
    t.ok(readBlocks(writeBlock(bytes)).equals(bytes), `${length} bytes`)
  }
  for (const broken of [[], [0x10], [0x04, 0, 0], [0x14, 1, 9, 0], [0xf0, 255]]) {
    t.throws(() => decompressLz4(Uint8Array.from(broken), 8), RangeError, String(broken))
  }
})

t.test('answers in blocks when the client says compress=1, errors and other statements too', async (t) => {
  const query = 'SELECT number, toString(number) FROM numbers(400000) FORMAT TSV'
  const plain = await server.ask(query)
  const blocks = await server.ask(query, { params: { compress: '1' } })
  const twice = await server.ask(query, { params: { compress: '1', enable_http_compression: '1' }, headers: { 'accept-encoding': 'gzip' } })

  t.ok(readBlocks(blocks.bytes).equals(plain.bytes))
  t.ok(readBlocks(zlib.gunzipSync(twice.bytes)).equals(plain.bytes))
  t.match(readBlocks((await server.ask('SELECT nope', { params: { compress: '1' } })).bytes).toString(), /^Code: 47/)
  t.equal(readBlocks((await server.ask('EXISTS TABLE nope', { params: { compress: '1' } })).bytes).toString(), '0\n')
  t.equal((await server.ask('SELECT 1 WHERE 0', { params: { compress: '1' } })).bytes.length, 0)
})

t.test('refuses a body in blocks, which decompress=1 would have it read', async (t) => {
  t.match(await server.ask('', { body: writeBlock(Buffer.from('SELECT 1')), params: { decompress: '1' } }), { code: 48, status: 501 })
})

t.test('writes Native for a client that names its revision: a head for each block, a byte for each column', async (t) => {
  const params = { client_protocol_version: '54460' }
  const one = await server.ask("SELECT 7 AS a, 'x' AS b FORMAT Native", { params })
  const old = await server.ask('SELECT 7 AS a FORMAT Native', { params: { client_protocol_version: '54400' } })
  const described = await server.ask('EXISTS TABLE nope', { params: { ...params, default_format: 'Native' } })

  t.equal(one.bytes.toString('hex'), '010002ffffffff00' + '0201' + '0161' + '0555496e7438' + '00' + '07' + '0162' + '06537472696e67' + '00' + '0178')
  t.equal(old.bytes.toString('hex'), '010002ffffffff00' + '0101' + '0161' + '0555496e7438' + '07')
  t.equal(described.bytes.toString('hex'), '010002ffffffff00' + '0101' + '06726573756c74' + '0555496e7438' + '00' + '00')
  t.equal((await server.ask('SELECT 1 AS a FORMAT TSV', { params })).text, '1\n')
  t.equal((await server.ask('SELECT 1 AS a WHERE 0 FORMAT Native', { params })).bytes.length, 0)
  t.match(await server.ask('SELECT nope FORMAT Native', { params }), { code: 47, status: 404 })
})

t.test('puts the columns of every type as the engine writes them behind their names, however a SELECT is written', async (t) => {
  const params = { client_protocol_version: '54460' }
  const select = `${ROWS}, sumState(number) OVER () AS state, '{"a": 1}'::JSON AS j, number::Dynamic AS dynamic, number::Variant(UInt64, String) AS variant
    FROM numbers(1000)`
  const columns = (await server.ask(`DESCRIBE (${select}) FORMAT TSVRaw`)).text.trim().split('\n').map((line) => line.split('\t', 1)[0]!)
  // Of a single column the engine's own Native is: 1, the rows (1000), and the column.
  const alone = await Promise.all(columns.map(async (name) =>
    (await server.ask(`SELECT ${name} FROM (${select}) FORMAT Native`)).bytes.subarray(3)))
  const withByte = alone.map((column) => {
    const at = 1 + column[0]! + 1 + column[1 + column[0]!]!
    return Buffer.concat([column.subarray(0, at), Buffer.from([0]), column.subarray(at)])
  })
  const expected = Buffer.concat([Buffer.from('010002ffffffff00', 'hex'), Buffer.from([columns.length, 0xe8, 0x07]), ...withByte])

  t.equal(columns.length, 17)
  for (const text of [`${select} FORMAT Native`, `WITH 1 AS one ${select} -- all of it`, `FROM (${select}) SELECT *`, `(${select})`]) {
    const served = await server.ask(text, { params: { ...params, default_format: 'Native' } })
    t.ok(served.bytes.equals(expected), text.slice(0, 20))
  }
  const many = await server.ask('SELECT number FROM numbers(3000) FORMAT Native', { params: { ...params, max_block_size: '1000' } })
  t.equal(many.bytes.length, 24_000 + 3 * (8 + 3 + 7 + 7 + 1))
})

t.test('writes the same Native however the bytes come', async (t) => {
  const bytes = (await server.ask(`${ROWS} FROM numbers(3000) FORMAT Buffers`, { params: { max_block_size: '1000' } })).bytes
  const columns = Array.from({ length: 13 }, (_, i) => ({ name: `column ${i}`, type: 'String' }))
  const write = createNativeWriter(columns, 54_460)
  const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => write(bytes.subarray(i * 7, i * 7 + 7)))

  t.ok(Buffer.concat(pieces.flat()).equals(Buffer.concat(createNativeWriter(columns, 54_460)(bytes))))
})

t.test('compresses in blocks of a mebibyte', async (t) => {
  const writer = new BlockWriter()
  const bytes = Buffer.alloc(2_500_000, 'abc')
  const parts = [bytes.subarray(0, 1_000_000), bytes.subarray(1_000_000)]
  const blocks = [...parts.flatMap((part) => writer.write(part)), ...writer.end()]

  t.ok(readBlocks(Buffer.concat(blocks)).equals(bytes))
  t.equal(blocks.length, 3)
})
