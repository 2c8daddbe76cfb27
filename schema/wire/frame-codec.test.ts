import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { buildEventBlock, type PlainEvent } from '../../test/support/event-block.ts'
import { decodeNativeBlock, encodeNativeBlock } from './frame-codec.ts'
import { describeRows, pickRows, uuidFromNative, uuidToNative } from './native-block.ts'

const events = fc.array(fc.record({
  project_id: fc.nat(),
  uuid: fc.uuid(),
  event: fc.string(),
  distinct_id: fc.string({ unit: 'binary' }),
  timestamp: fc.integer(),
  groups: fc.dictionary(fc.string(), fc.string()),
  properties: fc.json()
}), { minLength: 1, maxLength: 20 })

t.test('decodes what it encodes, byte for byte', async () => {
  fc.assert(fc.property(events, (rows) => {
    const bytes = encodeNativeBlock(buildEventBlock(rows as PlainEvent[]))
    return encodeNativeBlock(decodeNativeBlock(bytes)).equals(bytes)
  }), { numRuns: 200 })
})

t.test('keeps the picked rows as they are', async (t) => {
  const block = buildEventBlock([1, 2, 3].map((n) => ({
    project_id: n, uuid: randomUUID(), event: `e${n}`, distinct_id: 'd', timestamp: n, groups: { company: `c${n}` }
  })))

  const picked = decodeNativeBlock(encodeNativeBlock(pickRows(block, [0, 2])))

  t.match(describeRows(picked), [
    { project_id: 1, event: 'e1', is_bot: false, timestamp: '1970-01-01T00:00:00.001Z', groups: { company: 'c1' } },
    { project_id: 3, event: 'e3', groups: { company: 'c3' } }
  ])
})

t.test('rejects invalid blocks with an error, and with nothing else', async () => {
  const bytes = encodeNativeBlock(buildEventBlock([
    { project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: 'd', timestamp: 1, groups: { a: 'b' } }
  ]))
  fc.assert(fc.property(fc.nat(bytes.length - 1), fc.nat(255), fc.nat(bytes.length), (at, value, length) => {
    const broken = Buffer.from(bytes)
    broken[at] = value
    try {
      decodeNativeBlock(broken.subarray(0, length))
    } catch (error) {
      return (error as { code: string }).code === 'MILLRACE_BLOCK_INVALID'
    }
    return true
  }), { numRuns: 2000 })
})

t.test('reads what ClickHouse writes', async (t) => {
  const { client } = await createTestClickHouse(t)
  const uuid = randomUUID()
  const { stream } = await client.exec({
    query: `SELECT toUInt32(7) AS project_id, toUUID('${uuid}') AS uuid, toLowCardinality('x') AS event FORMAT Native`
  })
  const chunks: Buffer[] = []
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk)

  t.same(describeRows(decodeNativeBlock(Buffer.concat(chunks))), [{ project_id: 7, uuid, event: 'x' }])
  t.equal(uuidFromNative(uuidToNative(uuid)), uuid)
})
