import { randomBytes } from 'node:crypto'
import t from 'tap'
import { FINGERPRINT_BYTES } from '../../../schema/wire/frame-message.ts'
import { FingerprintMemory, FingerprintTable, NOT_REMEMBERED, REMEMBERED, UNCERTAIN } from './fingerprint-memory.ts'

t.test('a table finds what was added, and nothing else, while it grows', async (t) => {
  const table = new FingerprintTable(4)
  const bytes = randomBytes(12 * 20_000)
  // Few different homes, so that runs of taken slots are long.
  const at = (i: number): [number, number, number] =>
    [bytes.readUInt32LE(12 * i) & 0xff, bytes.readUInt32LE(12 * i + 4) & 0xff, bytes.readUInt32LE(12 * i + 8)]
  for (let i = 0; i < 10_000; i++) table.add(...at(i))

  for (let i = 0; i < 10_000; i++) if (!table.has(...at(i))) t.fail('lost what was added')
  const size = table.size
  table.add(...at(17))
  t.equal(table.size, size)
  const high = new Set(Array.from({ length: 10_000 }, (_, i) => at(i)[2]))
  for (let i = 10_000; i < 20_000; i++) {
    if (!high.has(at(i)[2]) && table.has(...at(i))) t.fail('found what was never added')
  }
  table.add(0, 0, 0)
  t.equal(table.has(0, 0, 0), false, 'no event has a fingerprint of zero')
})

t.test('an event is the same on the day before and after, and another one two days later', async (t) => {
  for (const low of [0, 1, 62, 63, 64, 127, 128, 0xffffffff]) {
    const table = new FingerprintTable()
    table.add(7, low, 9)

    for (const days of [-1, 0, 1]) t.equal(table.has(7, (low + days) >>> 0, 9), true, `${low} ${days}`)
    for (const days of [-2, 2, 64, -64]) t.equal(table.has(7, (low + days) >>> 0, 9), false, `${low} ${days}`)
    t.equal(table.has(8, low, 9), false)
    t.equal(table.has(7, low, 10), false)
  }
})

/** The payload of rows with these checks. */
function payloadOf (rows: number): Buffer {
  return randomBytes(rows * FINGERPRINT_BYTES)
}

function recallAll (memory: FingerprintMemory, payload: Buffer): number[] {
  return Array.from({ length: payload.length / FINGERPRINT_BYTES }, (_, row) => {
    const at = row * FINGERPRINT_BYTES
    return memory.recall(payload.readUInt32LE(at), payload.readUInt32LE(at + 4), payload.readUInt32LE(at + 8))
  })
}

t.test('remembers the last two generations, and tells since when', async (t) => {
  const memory = new FingerprintMemory(0, { keyId: 'k', maxGeneration: 100 })
  const payloads = Array.from({ length: 4 }, () => payloadOf(60))
  const add = (index: number): void =>
    memory.addRows({ payload: payloads[index]!, keyId: 'k', storedAt: 1000 * (index + 1) }, [0, 60])

  add(0)
  add(1)
  t.equal(memory.coveredSince, 0, 'the first generation is still there')
  t.ok(recallAll(memory, payloads[0]!).every((state) => state === REMEMBERED))
  add(2)
  t.equal(memory.coveredSince, 2000)
  t.ok(recallAll(memory, payloads[0]!).every((state) => state === NOT_REMEMBERED), 'the first generation is forgotten')
  t.ok(recallAll(memory, payloads[2]!).every((state) => state === REMEMBERED))
})

t.test('memories that begin with the same events forget them each by itself', async (t) => {
  const loaded = new FingerprintMemory(1000, { keyId: 'k', maxGeneration: 100 })
  const payloads = Array.from({ length: 5 }, () => payloadOf(60))
  loaded.addRows({ payload: payloads[0]!, keyId: 'k', storedAt: 0 }, [0, 60])
  const [busy, idle] = [loaded.fork(2000), loaded.fork(2000)]
  const isRemembered = (memory: FingerprintMemory, index: number): boolean =>
    recallAll(memory, payloads[index]!).every((state) => state === REMEMBERED)
  const add = (index: number): void =>
    busy.addRows({ payload: payloads[index]!, keyId: 'k', storedAt: 3000 + index }, [0, 60])

  add(1)
  t.same([busy.coveredSince, isRemembered(busy, 0), isRemembered(busy, 1)], [1000, true, true])
  t.same([idle.coveredSince, isRemembered(idle, 0), isRemembered(idle, 1)], [1000, true, false])
  for (const index of [2, 3, 4]) add(index)
  t.same(
    [busy.coveredSince, isRemembered(busy, 0), isRemembered(busy, 3), isRemembered(busy, 4)], [3003, false, true, true])
  t.same([idle.coveredSince, isRemembered(idle, 0)], [1000, true])
})

t.test('is uncertain about a uuid whose check it does not know, and remembers it apart from those it knows', async (t) => {
  const memory = new FingerprintMemory(0, { keyId: 'k' })
  const payload = payloadOf(2)

  memory.addRows({ payload, keyId: '', storedAt: 1 }, [0, 1])
  t.same(recallAll(memory, payload), [UNCERTAIN, NOT_REMEMBERED])
  memory.addRows({ payload, keyId: 'k', storedAt: 1 }, [0, 2])
  t.same(recallAll(memory, payload), [REMEMBERED, REMEMBERED])
})

t.test('adopts the key of the first message that has one, and understands no other', async (t) => {
  const memory = new FingerprintMemory(0)

  t.same([memory.understands(''), memory.understands('a'), memory.understands('b'), memory.understands('')],
    [false, true, false, false])
})
