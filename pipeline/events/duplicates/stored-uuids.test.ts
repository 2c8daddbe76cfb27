import { randomBytes } from 'node:crypto'
import t from 'tap'
import { UuidTable } from './stored-uuids.ts'

function viewOf (bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

t.test('a table of uuids has what was added and nothing else', (t) => {
  const [added, others] = [viewOf(randomBytes(16 * 50_000)), viewOf(randomBytes(16 * 50_000))]
  const table = new UuidTable(50_000)
  for (let i = 0; i < 50_000; i++) if (!table.add(added, 16 * i)) t.fail('no room')
  const { size } = table
  table.add(added, 16)

  t.equal(table.size, size, 'a second time is no further one')
  let [found, mistaken] = [0, 0]
  for (let i = 0; i < 50_000; i++) {
    if (table.has(added, 16 * i)) found++
    if (table.has(others, 16 * i)) mistaken++
  }
  t.equal(found, 50_000)
  t.ok(mistaken < 3, `${mistaken} mistaken`)
  t.end()
})

t.test('uuids that differ in one bit are different, wherever it is', (t) => {
  const bytes = Buffer.alloc(16)
  const table = new UuidTable(1)
  table.add(viewOf(bytes), 0)

  const mistaken = Array.from({ length: 128 }, (_, bit) => {
    const other = Buffer.from(bytes)
    other[bit >> 3]! ^= 1 << (bit & 7)
    return table.has(viewOf(other), 0)
  }).filter(Boolean)

  t.same(mistaken, [])
  t.end()
})

t.test('a full table says so, and still has what it took', (t) => {
  const table = new UuidTable(0)
  const uuids = viewOf(randomBytes(16 * 100_000))
  let taken = 0
  while (table.add(uuids, 16 * taken)) taken++

  t.ok(taken > 40_000 && taken < 100_000, `${taken}`)
  t.ok(table.has(uuids, 16 * (taken - 1)))
  t.end()
})
