import { randomBytes } from 'node:crypto'
import t from 'tap'
import { FingerprintTable, KnownUuids } from './known-uuids.ts'

t.test('a table finds what was added, and nothing else, while it grows', async (t) => {
  const table = new FingerprintTable(4)
  const added: [number, number][] = []
  const bytes = randomBytes(8 * 20_000)
  for (let i = 0; i < 10_000; i++) {
    // Few different homes, so that runs of taken slots are long.
    const pair: [number, number] = [bytes.readUInt32LE(8 * i), bytes.readUInt32LE(8 * i + 4) & 0xff0]
    added.push(pair)
    table.add(...pair)
  }

  t.ok(added.every(([low, high]) => table.has(low, high)))
  t.equal(table.add(...added[17]!), false)
  for (let i = 10_000; i < 20_000; i++) {
    const [low, high] = [bytes.readUInt32LE(8 * i), bytes.readUInt32LE(8 * i + 4) | 1]
    if (table.has(low, high)) t.fail('found what was never added')
  }
  table.clear()
  t.equal(table.has(...added[0]!), false)
})

t.test('remembers the last two generations, and tells since when', async (t) => {
  const known = new KnownUuids(0, 100)
  const payloads = Array.from({ length: 5 }, () => randomBytes(60 * 8))
  const add = (index: number): number => known.addPayload(payloads[index]!, 60, 1000 * (index + 1)).length

  t.equal(add(0), 0)
  t.equal(known.coveredSince, 0)
  t.equal(add(1), 0)
  t.equal(known.coveredSince, 0, 'the first generation is still there')
  t.equal(add(2), 0)
  t.equal(known.coveredSince, 2000)
  t.equal(known.addPayload(payloads[2]!, 60, 3000).length, 60, 'all rows of a repeated payload are known')
  t.ok(known.addPayload(payloads[0]!, 60, 4000).length < 60, 'the first generation is forgotten')
})

t.test('knows nothing about a fingerprint of zero', async (t) => {
  const known = new KnownUuids(0)
  t.same(known.addPayload(new Uint8Array(16), 2, 0), [])
  t.same(known.addPayload(new Uint8Array(16), 2, 0), [])
})
