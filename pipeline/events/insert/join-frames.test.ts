import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompressSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { decodeFrame, decodeNativeBlock, encodeFrame, encodeNativeBlock } from '../../../schema/wire/frame-codec.ts'
import { type NativeBlock, pickRows } from '../../../schema/wire/native-block.ts'
import { frameOf } from '../../../schema/wire/frame-message.ts'
import { buildEventBlock, type PlainEvent } from '../../../test/support/event-block.ts'
import { createTestClickHouse, stopMerges, type TestClickHouse } from '../../../test/support/test-stores.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import { encodePayload, makeEvents } from '../../testing/publish-events.ts'
import { buildFrames } from '../batch-range.ts'
import { gapsWithin, hasRow, toPairs } from '../row-ranges.ts'
import type { PartitionMessage } from '../events-reader.ts'
import { createClickHouseAgent, createInsertFrames, INSERT_SETTINGS, INSERT_SETTINGS_VERSION } from './insert-frames.ts'
import { joinBlocks, joinFrames } from './join-frames.ts'

/** The columns that are always there: see `schema/wire/event-row.ts`. */
const FIXED_COLUMNS = new Set(
  ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp', 'received_at', 'properties', 'property_types'])

/** A block as ingest makes it: without the columns that are empty in all its rows. */
function buildBlock (events: readonly PlainEvent[], columns = new Set<string>()): NativeBlock {
  const block = buildEventBlock(events)
  const isBrought = (name: string): boolean => FIXED_COLUMNS.has(name) || columns.has(name) ||
    events.some((event) => event[name] !== undefined)
  return { ...block, columns: block.columns.filter(({ name }) => isBrought(name)) }
}

/** Of several blocks, behind each other. */
function join (blocks: readonly Buffer[]): Buffer {
  return joinBlocks(Buffer.concat(blocks), blocks.map(({ length }) => length))
}

const event = fc.record({
  project_id: fc.nat(),
  uuid: fc.uuid(),
  event: fc.constantFrom('', 'a', 'ä', '$pageview', 'x'.repeat(300)),
  distinct_id: fc.string({ unit: 'binary', maxLength: 200 }),
  timestamp: fc.integer(),
  received_at: fc.nat(),
  properties: fc.json(),
  property_types: fc.string(),
  groups: fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 }),
  browser: fc.constantFrom('Chrome', 'Safari', ''),
  ip: fc.ipV4(),
  sample_weight: fc.constantFrom(1, 4, 10 / 3)
}, { requiredKeys: ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp', 'received_at', 'properties', 'property_types'] })

const batches = fc.array(fc.array(event, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 8 })

t.test('gives the block that all events would have been, byte for byte', async () => {
  fc.assert(fc.property(batches, (lists) => {
    const blocks = (lists as PlainEvent[][]).map((events) => encodeNativeBlock(buildBlock(events)))
    return join(blocks).equals(encodeNativeBlock(buildBlock((lists as PlainEvent[][]).flat())))
  }), { numRuns: 100 })
})

/** Rows of each block that are left out. */
const skippedRows = fc.array(fc.subarray(Array.from({ length: 12 }, (_, row) => row)), { minLength: 8, maxLength: 8 })

t.test('gives the kept events, cell by cell', async () => {
  fc.assert(fc.property(batches, skippedRows, (lists, skipped) => {
    const parts = (lists as PlainEvent[][]).map((events, index) => ({
      block: buildBlock(events),
      kept: gapsWithin(toPairs(skipped[index]!), 0, events.length),
      events: events.filter((_, row) => !skipped[index]!.includes(row))
    })).filter(({ kept }) => kept.length > 0)
    if (parts.length === 0) return true
    const columns = new Set(parts.flatMap(({ block }) => block.columns.map(({ name }) => name)))
    const blocks = parts.map(({ block }) => encodeNativeBlock(block))

    const joined = joinBlocks(Buffer.concat(blocks), blocks.map(({ length }) => length), parts.map(({ kept }) => kept))

    // A dictionary has the keys of the other rows as well.
    const expected = encodeNativeBlock(buildBlock(parts.flatMap(({ events }) => events), columns))
    return encodeNativeBlock(decodeNativeBlock(joined)).equals(expected)
  }), { numRuns: 100 })
})

for (const [keys, bytes] of [[300, 2], [70_000, 4]] as const) {
  t.test(`merges dictionaries of ${keys} keys, whose indexes take ${bytes} bytes`, async (t) => {
    const names = Array.from({ length: keys + 10 }, (_, index) => `event ${index % keys}`)
    const blocks = Array.from({ length: 11 }, (_, index): NativeBlock => {
      const cells = names.slice(index * keys / 10, (index + 1) * keys / 10).map((text) => Buffer.from(text))
      return { rows: cells.length, columns: [{ name: 'event', type: 'LowCardinality(String)', cells }] }
    })

    const { rows, columns } = decodeNativeBlock(join(blocks.map(encodeNativeBlock)))

    t.equal(rows, names.length)
    t.same(columns[0]!.cells.map(String), names)
  })
}

t.test('joins small frames, leaves large ones as they are, and does the same each time', async (t) => {
  const small = await Promise.all([1, 40, 3].map(async (rows) => await encodeFrame(buildBlock(makeEvents(rows)))))
  const large = await encodeFrame(buildBlock(makeEvents(1, () => ({ properties: 'x'.repeat(300_000) }))))
  const frames = [small[0]!, large, small[1]!, small[2]!]

  const joined = await joinFrames(frames)

  t.equal(joined.length, 2)
  t.ok(zstdDecompressSync(joined[0]!).equals(join(small.map((frame) => zstdDecompressSync(frame)))))
  t.equal(joined[1], large)
  t.same(await joinFrames(frames), joined)
  t.same(await joinFrames([small[0]!, large]), [small[0], large], 'one small frame alone')
  t.same(await joinFrames([]), [])
})

t.test('bounds what becomes one block', async (t) => {
  const frame = await encodeFrame(buildBlock(makeEvents(1, () => ({ properties: 'x'.repeat(60_000) }))))

  // 4 MiB hold 69 of them.
  t.equal((await joinFrames(Array.from({ length: 150 }, () => frame))).length, 3)
})

t.test('leaves frames alone that it cannot read', async (t) => {
  const good = await encodeFrame(buildBlock(makeEvents(5)))
  const bytes = encodeNativeBlock(buildBlock(makeEvents(5)))
  const unsized = await promisify(zstdCompress)(bytes, { params: { [constants.ZSTD_c_contentSizeFlag]: 0 } })
  const unknown = buildBlock(makeEvents(5))
  unknown.columns.push({ name: 'later', type: 'String', cells: unknown.columns[1]!.cells as Uint8Array[] })
  const noZstd = Buffer.from('garbage, and more of it than the header of a frame has')
  // With nothing to join beside the good ones.
  for (const [name, frame] of Object.entries({ 'no zstd': noZstd, 'an unknown size': unsized })) {
    const frames = await joinFrames([good, frame, good])
    t.equal(frames.length, 2, name)
    t.equal(frames[1], frame, name)
  }
  // Nobody can tell which of a group it is, but ClickHouse.
  const broken = {
    'a frame that ends too early': good.subarray(0, good.length - 3),
    'a block without rows': await encodeFrame(buildBlock([])),
    'an unknown column': await encodeFrame(unknown)
  }
  for (const [name, frame] of Object.entries(broken)) {
    t.same(await joinFrames([good, frame, good]), [good, frame, good], name)
  }
})

t.test('comes to an end with any bytes, and never joins blocks of another size', async () => {
  const blocks = [3, 1, 4].map((rows) => encodeNativeBlock(buildBlock(makeEvents(rows, () => ({ groups: { a: 'b' } })))))
  const bytes = Buffer.concat(blocks)
  const sizes = blocks.map(({ length }) => length)
  fc.assert(fc.property(fc.nat(bytes.length - 1), fc.nat(255), fc.nat(bytes.length - 1), (at, value, length) => {
    const broken = Buffer.from(bytes)
    broken[at] = value
    try {
      // A changed byte of a text makes another text; a block that is too short makes nothing.
      joinBlocks(broken, sizes)
      joinBlocks(broken.subarray(0, length), sizes)
    } catch {
      return true
    }
    return false
  }), { numRuns: 600 })
})

const MONTH_MS = 31 * 86_400_000

/** Messages of a partition over three months, of every kind that there is. */
function makeMessages (): PartitionMessage[] {
  const kinds: ((index: number) => Partial<PlainEvent>)[] = [
    () => ({}),
    (index) => ({ browser: `Browser ${index}`, groups: { company: `c${index}`, team: 'ä' }, ip: '10.0.0.1' }),
    (index) => ({ event: `event ${index}`, utm_source: 'x', properties: '{"text":"naïve \\u0000"}', property_types: 'eStext' })
  ]
  return Array.from({ length: 60 }, (_, sequence) => {
    const rows = 1 + sequence % 40
    const events = makeEvents(rows, (index) => ({
      timestamp: Date.now() - (index % 3) * MONTH_MS, ...kinds[sequence % kinds.length]!(index)
    }))
    const brought = buildBlock(events).columns.map(({ name }) => name)
    const payload = encodePayload(events, { columns: (name) => brought.includes(name) })
    return { sequence, rows, layout: 1, payload, frame: frameOf(payload, rows) } as PartitionMessage
  })
}

/** Decodes what `buildFrames` copies, and joins nothing. */
async function pickEach (messages: readonly PartitionMessage[], { deduplicated }: BatchRange): Promise<Uint8Array[]> {
  const frames = await Promise.all(messages.map(async ({ sequence, frame, rows }) => {
    const skipped = new Map(deduplicated).get(sequence) ?? []
    const kept = Array.from({ length: rows }, (_, row) => row).filter((row) => !hasRow(skipped, row))
    return kept.length === 0 ? [] : [await encodeFrame(pickRows(await decodeFrame(frame), kept))]
  }))
  return frames.flat()
}

interface Target {
  clickhouse: TestClickHouse
  /** @returns the number of frames. */
  insert: (messages: PartitionMessage[], range: BatchRange, build?: typeof buildFrames) => Promise<number>
}

async function createTarget (t: TestContext): Promise<Target> {
  const clickhouse = await createTestClickHouse(t)
  await stopMerges(t, clickhouse.client, ['events', 'event_volumes_by_day', 'event_property_counts'])
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  const insertFrames = createInsertFrames({ url: clickhouse.url, agent })
  return {
    clickhouse,
    insert: async (messages, range, build = buildFrames) => {
      const frames = await build(messages, range)
      const token = `t:live.0:${range.first}-${range.last}`
      await insertFrames({ frames, token, settings: INSERT_SETTINGS[range.settings]! })
      return frames.length
    }
  }
}

async function readTables ({ client }: TestClickHouse): Promise<unknown[]> {
  const queries = [
    'SELECT * EXCEPT (inserted_at) FROM events ORDER BY uuid',
    'SELECT * FROM event_volumes_daily ORDER BY ALL',
    'SELECT * FROM event_properties ORDER BY ALL'
  ]
  return await Promise.all(queries.map(async (query) =>
    await (await client.query({ query, format: 'JSONEachRow' })).json()))
}

t.test('the table and its views are the same with and without joining, also after repetitions', async (t) => {
  const messages = makeMessages()
  const range: BatchRange = {
    first: 0,
    last: 59,
    messages: 60,
    layout: 1,
    settings: INSERT_SETTINGS_VERSION,
    receivedBy: [],
    deduplicated: [[0, [0, 1]], [7, [0, 2, 5, 8]], [39, [39, 40]]]
  }
  const [joined, plain] = [await createTarget(t), await createTarget(t)]

  for (let i = 0; i < 3; i++) {
    t.equal(await joined.insert(messages, range), 1)
    t.equal(await plain.insert(messages, range, pickEach), 59)
  }
  const [table, reference] = [await readTables(joined.clickhouse), await readTables(plain.clickhouse)]

  t.same(table, reference)
  t.equal((table[0] as unknown[]).length, messages.reduce((sum, { rows }) => sum + rows, 0) - 1 - 5 - 1)
})
