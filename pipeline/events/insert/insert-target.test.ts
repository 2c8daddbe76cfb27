import t from 'tap'
import { startClickHouseFaultProxy } from '../../../test/faults/system/clickhouse-fault-proxy.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { openPartitionRecords, type PartitionRecord } from '../../stream/partition-records.ts'
import { makeEvents, publishEvents } from '../../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, type TestStores, waitUntilStored } from '../../testing/start-test-partition.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { createClickHouseAgent, createInsertFrames } from './insert-frames.ts'
import { isAnotherTarget } from './insert-target.ts'

const PARTITION = { eventClass: 'live', number: 0 } as const

t.test('a target is another one when its shards are, or when all tables that answer are', async (t) => {
  const target = { split: '2 shards', tables: ['a', 'b'] }

  t.equal(isAnotherTarget(target, { ...target, tables: ['b'] }), false, 'a node does not answer')
  t.equal(isAnotherTarget(target, { ...target, tables: ['b', 'c'] }), false, 'a node was added')
  t.equal(isAnotherTarget(target, { ...target, tables: [] }), false, 'no node answered')
  t.equal(isAnotherTarget(target, { ...target, split: '3 shards' }), true)
  t.equal(isAnotherTarget(target, { ...target, tables: ['c'] }), true)
})

/** A partition that ends while ClickHouse has stored an insert and the partition does not know. */
async function leaveUnfinished (t: TestContext, stores: TestStores): Promise<PartitionRecord> {
  const proxy = await startClickHouseFaultProxy(stores.clickhouse.url)
  const agent = createClickHouseAgent()
  t.teardown(async () => {
    agent.destroy()
    await proxy.close()
  })
  proxy.set(() => ({ kind: 'lose answer' }))
  for (let i = 0; i < 3; i++) await publishEvents(stores.connection, makeEvents(10))
  const partition = await startTestPartition(t, stores, {
    store: { insertFrames: createInsertFrames({ url: proxy.url, agent }) },
    limits: { maxRows: 20, maxBytes: 16_777_216, maxAgeMs: 50 }
  })
  await waitFor(async () => (await countEvents(stores)).rows > 0)
  await partition.abort()
  const { record } = await (await openPartitionRecords(stores.connection, { replicas: 1 })).read(PARTITION)
  if (record?.range == null) throw new Error('no insert is unfinished')
  return record
}

t.test('an unfinished insert is stored once where its tables were restored, and what waited after it', async (t) => {
  const stores = await startTestStores(t)
  await leaveUnfinished(t, stores)
  const restored = await createTestClickHouse(t)
  const from = stores.clickhouse.url.split('/').at(-1)
  await restored.client.command({ query: `INSERT INTO events SELECT * FROM "${from}".events SETTINGS final = 0` })
  const others = { ...stores, clickhouse: restored }

  await startTestPartition(t, others, { owner: 'another' })
  await waitUntilStored(stores)

  t.same(await countEvents(others), { rows: 30, uuids: 30, volume: 30, properties: 30 })
})

t.test('rows that are missing are stored although the shards know the token of the unfinished insert', async (t) => {
  const stores = await startTestStores(t)
  const before = await leaveUnfinished(t, stores)
  const [row] = await (await stores.clickhouse.client.query({
    query: 'SELECT any(toString(uuid)) AS uuid, any(insert_token) AS token FROM events', format: 'JSONEachRow'
  })).json<{ uuid: string, token: string }>()
  const stored = (await countEvents(stores)).rows
  // As in another split: the row would go to a shard that took the others under that token.
  await stores.clickhouse.client.command({ query: `DELETE FROM events WHERE uuid = '${row!.uuid}'` })
  const readTarget = async (): Promise<{ split: string, tables: string[] }> => ({ split: 'of more shards', tables: [] })
  let asked = ''
  const isInserting = async (token: string): Promise<boolean> => {
    const isFirst = asked === ''
    asked = token
    return isFirst
  }

  await startTestPartition(t, stores, { owner: 'another', store: { readTarget, isInserting } })
  await waitUntilStored(stores)

  t.match(await countEvents(stores), { rows: 30, uuids: 30, volume: 31 }, 'the view counted the deleted row before')
  t.equal(asked, row!.token, 'after ClickHouse was seen to have ended the old insert')
  const { record } = await (await openPartitionRecords(stores.connection, { replicas: 1 })).read(PARTITION)
  t.match(record, { stream: `${before.stream}~1`, doubtful: undefined })
  const accepted = Object.values(record!.ledger.entries).reduce((sum, entry) => sum + entry.accepted, 0)
  const duplicates = Object.values(record!.ledger.entries).reduce((sum, entry) => sum + entry.duplicates, 0)
  t.same([accepted, duplicates], [30, 0], 'what the old insert stored is booked as stored')
  t.ok(stored > 1)
})
