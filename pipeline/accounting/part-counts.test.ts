import { randomUUID } from 'node:crypto'
import t from 'tap'
import { countStored } from './check-books.ts'
import { minuteOfReceipt } from '../../schema/wire/ledger.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { PartCounts } from './part-counts.ts'

t.test('a merge of counted parts is not read again, unless rows are missing', async (t) => {
  const { client } = await createTestClickHouse(t)
  const minute = minuteOfReceipt(Date.now())
  const span = { from: minute - 60, to: minute + 5 }
  const counts = new PartCounts({ clickhouse: client, cluster: '' })
  const run = async (query: string): Promise<unknown> => await client.command({ query })
  const insert = async (uuids: readonly string[]): Promise<void> => {
    const values = uuids.map((uuid, index) => ({
      project_id: 1 + index % 2, uuid, event: 'e', distinct_id: 'd', timestamp: '2026-01-02 03:04:05',
      received_at: new Date((minute - index % 3) * 60_000).toISOString().slice(0, 19).replace('T', ' ')
    }))
    await client.insert({ table: 'events', values, format: 'JSONEachRow' })
  }
  /** What it counts, which must be what is there; and how many rows it has read for that. */
  const count = async (): Promise<[rows: number, read: number]> => {
    const before = counts.rowsRead
    const found = await counts.count(span)
    const sort = (each: ReadonlyMap<string, number>): [string, number][] => [...each].sort()
    t.same(sort(found), sort(await countStored({ clickhouse: client, cluster: '' }, span)))
    return [[...found.values()].reduce((sum, rows) => sum + rows, 0), counts.rowsRead - before]
  }
  const makeUuids = (): string[] => Array.from({ length: 10 }, () => randomUUID())

  // What is merged before it was counted is nobody's sum.
  await run('SYSTEM STOP MERGES events')
  const uuids = makeUuids()
  for (const each of [uuids, makeUuids(), makeUuids()]) await insert(each)
  t.same(await count(), [30, 30])
  const merge = async (): Promise<void> => {
    await run('SYSTEM START MERGES events')
    await run('OPTIMIZE TABLE events FINAL')
    await run('SYSTEM STOP MERGES events')
  }
  await merge()
  t.same(await count(), [30, 0])

  await insert(uuids)
  t.same(await count(), [40, 10])
  await merge()
  t.same(await count(), [30, 30], 'the merge has left out what was there twice')

  await run('SYSTEM START MERGES events')
  await run(`ALTER TABLE events DELETE WHERE uuid = '${uuids[0]}' SETTINGS mutations_sync = 2`)
  t.same(await count(), [29, 29], 'a row that was removed by hand')
  await insert(makeUuids())
  await merge()
  t.equal((await count())[0], 39, 'parts of which one was written by a mutation')

  await run('SYSTEM START MERGES events')
  await run(`DELETE FROM events WHERE uuid = '${uuids[1]}'`)
  t.equal((await count())[0], 38, 'a row that is masked, and still in its part')
  await insert([randomUUID()])
  await merge()
  t.equal((await count())[0], 39, 'a merge with as many rows, of which one was never counted')
})
