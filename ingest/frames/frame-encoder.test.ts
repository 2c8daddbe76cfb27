import zlib from 'node:zlib'
import t from 'tap'
import { EVENT_COLUMNS } from '../../schema/wire/event-row.ts'
import { createFingerprintKey, FINGERPRINT_BYTES, FingerprintWriter, frameOf } from '../../schema/wire/frame-message.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { decodeNativeBlock } from '../../schema/wire/frame-codec.ts'
import { type EventRow, PROMOTED_PROPERTIES } from '../event.ts'
import { createUuidV7 } from '../../engines/uuid.ts'
import { FrameEncoder, isFull, needsNewMessage } from './frame-encoder.ts'

const PROMOTED_COLUMNS = EVENT_COLUMNS.flatMap((column) => 'promotes' in column ? [column.name] : [])

function buildRow (fields: Partial<EventRow> & { ordinal: number }): EventRow {
  const { ordinal } = fields
  return {
    projectId: 7,
    uuid: createUuidV7(1_790_000_000_000 + ordinal),
    event: `event ${ordinal % 3}`,
    distinctId: `user ${ordinal}`,
    timestamp: 1_790_000_000_123 + ordinal,
    receivedAt: 1_790_000_000_456 + ordinal,
    groups: [],
    properties: JSON.stringify({ ordinal }),
    propertyTypes: 'eNordinal',
    promoted: PROMOTED_PROPERTIES.map(() => ''),
    schemaVersion: 0,
    isBot: false,
    sampleWeight: 1,
    ...fields
  }
}

/** Inserts frames as the writer does: concatenated, unread. */
async function insertFrames (url: string, frames: readonly Uint8Array[]): Promise<void> {
  const { origin, database, headers } = parseClickHouseUrl(url)
  const response = await fetch(`${origin}/?database=${database}&query=${encodeURIComponent('INSERT INTO events FORMAT Native')}`, {
    method: 'POST', headers: { ...headers, 'content-encoding': 'zstd' }, body: Buffer.concat(frames)
  })
  if (response.status !== 200) throw new Error(await response.text())
}

t.test('every column of a frame arrives in ClickHouse as it was given', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const promoted = PROMOTED_PROPERTIES.map((name, i) => i % 2 === 0 ? `${name} café 日本 😀` : '')
  const row = buildRow({
    ordinal: 1,
    uuid: { a: 0x0193a5b2, b: 0x7c1d7e8f, c: 0x9abcdef0, d: 0x12345678 },
    event: '$pageview ✓',
    distinctId: 'ü'.repeat(100),
    groups: ['company', 'id:5', 'team', 'a'],
    properties: JSON.stringify({ long: 'x'.repeat(20_000), text: '日本' }),
    promoted
  })
  const encoder = new FrameEncoder(() => null, 'live')
  encoder.append(row)
  const { payload, rows } = encoder.take()

  await insertFrames(clickhouse.url, [frameOf(payload, rows)])

  const result = await clickhouse.client.query({
    query: 'SELECT *, toUnixTimestamp64Milli(timestamp) AS t, toUnixTimestamp64Milli(received_at) AS r FROM events',
    format: 'JSONEachRow'
  })
  const [stored] = await result.json<Record<string, unknown>>()
  t.match(stored, {
    project_id: 7,
    uuid: '0193a5b2-7c1d-7e8f-9abc-def012345678',
    event: '$pageview ✓',
    distinct_id: row.distinctId,
    groups: { company: 'id:5', team: 'a' },
    properties: row.properties,
    property_types: 'eNordinal',
    t: String(row.timestamp),
    r: String(row.receivedAt),
    session_id: promoted[0],
    current_url: promoted[PROMOTED_PROPERTIES.indexOf('$current_url')],
    browser: promoted[PROMOTED_PROPERTIES.indexOf('$browser')],
    ip: promoted[PROMOTED_PROPERTIES.indexOf('$ip')]
  })
})

t.test('frames with dictionaries of one, two and four bytes, reusing the encoder, insert together', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const encoder = new FrameEncoder(() => null, 'live')
  const sizes = [10, 1000, 70_000]
  const frames = sizes.map((size) => {
    for (let ordinal = 0; ordinal < size; ordinal++) {
      encoder.append(buildRow({ ordinal, event: `e${size}-${ordinal}`, groups: ordinal % 2 === 0 ? ['g', String(ordinal)] : [] }))
    }
    const { payload, rows } = encoder.take()
    t.equal(rows, size)
    return frameOf(payload, rows)
  })

  await insertFrames(clickhouse.url, frames)

  const result = await clickhouse.client.query({
    query: `SELECT count() AS rows, uniqExact(event) AS events, countIf(event = concat('e', splitByChar('-', substring(event, 2))[1], '-', toString(JSONExtractInt(properties, 'ordinal')))) AS matching,
      countIf(if(JSONExtractInt(properties, 'ordinal') % 2 = 0, groups = map('g', toString(JSONExtractInt(properties, 'ordinal'))), empty(groups))) AS grouped FROM events`,
    format: 'JSONEachRow'
  })
  t.same(await result.json(), [{ rows: '71010', events: '71010', matching: '71010', grouped: '71010' }])
})

t.test('columns that are empty in every row are omitted and stored as empty', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const encoder = new FrameEncoder(() => null, 'live')
  const encode = (promoted: readonly string[], groups: readonly string[], own: Partial<EventRow> = {}): Uint8Array => {
    for (let ordinal = 0; ordinal < 3; ordinal++) {
      const nothing = { promoted: PROMOTED_PROPERTIES.map(() => '') }
      encoder.append(buildRow({ ordinal, groups, ...ordinal === 1 ? { promoted, ...own } : nothing }))
    }
    const { payload, rows } = encoder.take()
    return frameOf(payload, rows)
  }
  const own = { schemaVersion: -7, isBot: true, sampleWeight: 2.5, withoutPerson: true as const }
  const full = encode(PROMOTED_PROPERTIES.map((name) => name), ['company', 'a'], own)
  const [empty, other] = [1, 2].map(() => encode(PROMOTED_PROPERTIES.map(() => ''), [])) as [Uint8Array, Uint8Array]

  await insertFrames(clickhouse.url, [empty, full, other])

  const columns = (frame: Uint8Array): number => zlib.zstdDecompressSync(frame).readUInt8(0)
  t.same([columns(full), columns(empty)], [EVENT_COLUMNS.length, EVENT_COLUMNS.length - PROMOTED_PROPERTIES.length - 1])
  const result = await clickhouse.client.query({
    query: `SELECT toUInt32(count()) AS rows, ${PROMOTED_COLUMNS.map((name) => `toUInt32(countIf(${name} != '')) AS ${name}_set`).join(', ')},
      toUInt32(countIf(groups = map('company', 'a'))) AS grouped, toUInt32(countIf(empty(groups))) AS ungrouped,
      toUInt32(countIf(schema_version = -7)) AS marked, toUInt32(countIf(schema_version = 0)) AS unmarked,
      toUInt32(countIf(is_bot)) AS bots, toUInt32(countIf(without_person)) AS personless, sum(sample_weight) AS weight FROM events`,
    format: 'JSONEachRow'
  })
  t.same(await result.json(), [{
    rows: 9, ...Object.fromEntries(PROMOTED_COLUMNS.map((name) => [`${name}_set`, 1])), grouped: 3, ungrouped: 6, marked: 1, unmarked: 8, bots: 1, personless: 1, weight: 10.5
  }])
})

t.test('a column with a DEFAULT in the table is in every frame, so that ClickHouse does not compute it for each', async (t) => {
  const { client } = await createTestClickHouse(t)
  const encoder = new FrameEncoder(() => null, 'live')
  encoder.append(buildRow({ ordinal: 1 }))
  const { payload, rows } = encoder.take()
  const { columns } = decodeNativeBlock(zlib.zstdDecompressSync(frameOf(payload, rows)))
  const sent = new Set(columns.map(({ name }) => name))

  const result = await client.query({
    query: `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'events'
      AND default_kind = 'DEFAULT' AND name IN {names: Array(String)}`,
    query_params: { names: EVENT_COLUMNS.map(({ name }) => name) },
    format: 'JSONEachRow'
  })
  const names = (await result.json<{ name: string }>()).map(({ name }) => name)

  t.same(names.filter((name) => !sent.has(name)), [])
  t.ok(names.includes('sample_weight'))
})

t.test('each row has the fingerprint of what it says, under the key of the deployment', async (t) => {
  const key = createFingerprintKey(Buffer.from('fedcba9876543210'))
  const encoder = new FrameEncoder(() => key, 'live')
  const row = buildRow({ ordinal: 1 })
  const written = [
    row, row, { ...row, projectId: 8 }, { ...row, event: 'another ✓' }, { ...row, distinctId: 'ü'.repeat(5000) }, { ...row, distinctId: '' },
    { ...row, timestamp: row.timestamp + 86_400_000 }, { ...row, timestamp: -1 }, buildRow({ ordinal: 2 })
  ]
  for (const one of written) encoder.append(one)

  const { payload, rows, keyId } = encoder.take()

  t.equal(rows, written.length)
  t.equal(keyId, key.id)
  const writer = new FingerprintWriter(key)
  const expected = written.map((one) => {
    const uuid = new DataView(new ArrayBuffer(16))
    const { a, b, c, d } = one.uuid;
    [b, a, d, c].forEach((word, index) => uuid.setUint32(4 * index, word, true))
    const distinctId = Buffer.from(one.distinctId)
    const into = Buffer.alloc(FINGERPRINT_BYTES)
    const { projectId, event, timestamp } = one
    writer.write(new DataView(into.buffer, into.byteOffset), 0, {
      projectId, event, timestamp, uuid, uuidOffset: 0, distinctId, from: 0, to: distinctId.length
    })
    return into.toString('hex')
  })
  const actual = written.map((_, i) => Buffer.from(payload.subarray(i * FINGERPRINT_BYTES, (i + 1) * FINGERPRINT_BYTES)).toString('hex'))
  t.same(actual, expected)
  t.equal(actual[0], actual[1])
  t.equal(new Set(actual).size, written.length - 1)
})

t.test('a fingerprint whose key is not known has no check, and the frame names no key', async (t) => {
  const encoder = new FrameEncoder(() => null, 'live')
  encoder.append(buildRow({ ordinal: 1 }))

  const { payload, keyId } = encoder.take()

  t.equal(keyId, '')
  t.not(payload.readUInt32LE(0), 0)
  t.equal(payload.readBigUInt64LE(4), 0n)
})

t.test('tells the oldest time that a uuid of version 7 carries', async (t) => {
  const encoder = new FrameEncoder(() => null, 'live')
  for (const ordinal of [5, 3, 9]) encoder.append(buildRow({ ordinal }))
  t.equal(encoder.take().oldestUuidAt, 1_790_000_000_003)

  encoder.append(buildRow({ ordinal: 1, uuid: { a: 0x0193a5b2, b: 0x7c1d4e8f, c: 0x9abcdef0, d: 0x12345678 } }))
  t.equal(encoder.take().oldestUuidAt, Infinity)
})

t.test('a uuid that tells no time is older than any memory among historical events', async (t) => {
  const encoder = new FrameEncoder(() => null, 'historical')
  encoder.append(buildRow({ ordinal: 5 }))
  t.equal(encoder.take().oldestUuidAt, 1_790_000_000_005)

  encoder.append(buildRow({ ordinal: 5 }))
  encoder.append(buildRow({ ordinal: 1, uuid: { a: 0x0193a5b2, b: 0x7c1d4e8f, c: 0x9abcdef0, d: 0x12345678 } }))
  t.equal(encoder.take().oldestUuidAt, 0)
})

t.test('every text counts towards a full frame, in bytes, once for each value of a dictionary', async (t) => {
  const rows = (text: (ordinal: number) => Partial<EventRow>): number => {
    const encoder = new FrameEncoder(() => null, 'live')
    while (!isFull(encoder)) encoder.append(buildRow({ ordinal: encoder.rows, ...text(encoder.rows) }))
    const { payload, rows } = encoder.take()
    const block = zlib.zstdDecompressSync(frameOf(payload, rows))
    t.ok(block.length < 1_000_000, `${block.length} bytes`)
    t.equal(decodeNativeBlock(block).rows, rows)
    return rows
  }
  const long = (ordinal: number): string => `${ordinal}${'日'.repeat(5000)}`
  const promote = (name: string, ordinal: number): Partial<EventRow> =>
    ({ promoted: PROMOTED_PROPERTIES.map((each) => each === name ? long(ordinal) : '') })

  t.equal(rows(() => ({})), 1000)
  t.equal(rows(() => ({ propertyTypes: long(0) })), 1000, 'one value is in the dictionary once')
  t.equal(rows((ordinal) => ({ propertyTypes: long(ordinal) })), 53)
  t.equal(rows((ordinal) => ({ event: long(ordinal) })), 53)
  t.equal(rows((ordinal) => ({ groups: ['g', long(ordinal)] })), 53)
  t.equal(rows((ordinal) => promote('$current_url', ordinal)), 53)
  t.equal(rows((ordinal) => promote('$browser', ordinal)), 53)
  t.ok(needsNewMessage(buildRow({ ordinal: 1, propertyTypes: 'x'.repeat(140_000) })), 'a long description travels alone')
})

t.test('the memory of a large row is given back with its frame', async (t) => {
  const encoder = new FrameEncoder(() => null, 'live')
  const fill = (fields: Partial<EventRow>): number => {
    encoder.append(buildRow({ ordinal: 1, ...fields }))
    encoder.take()
    return encoder.capacity
  }
  const ordinary = fill({})

  t.equal(fill({ properties: JSON.stringify('x'.repeat(10_000_000)) }), ordinary)
  t.equal(fill({ propertyTypes: '日'.repeat(5_000_000) }), ordinary)
  t.ok(fill({ properties: JSON.stringify('x'.repeat(200_000)) }) > ordinary, 'memory in constant use is kept')
})
