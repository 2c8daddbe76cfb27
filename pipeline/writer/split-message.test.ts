import t from 'tap'
import { createClickHouseAgent } from '../../platform/clickhouse/connect-clickhouse.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, waitUntilStored } from '../testing/start-test-partition.ts'
import { createInsertFrames, InsertError, type InsertFrames } from './insert/insert-frames.ts'

t.test('stores the rest of a message alone when its first rows are stored and ClickHouse takes everything again', async (t) => {
  const stores = await startTestStores(t)
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  const insert = createInsertFrames({ url: stores.clickhouse.url, agent })
  let refused = 0
  const insertFrames: InsertFrames = async (range) => {
    // The batch range of both messages, then the first message, then half of it; then a quarter of it passes, and all
    // after.
    if (refused < 3) {
      refused++
      throw new InsertError('Code: 252. DB::Exception: Too many partitions for single INSERT block', 252)
    }
    await insert(range)
  }
  await publishEvents(stores.connection, makeEvents(8))
  await publishEvents(stores.connection, makeEvents(8))

  await startTestPartition(t, stores, { insertFrames })
  await waitUntilStored(stores)

  t.equal(refused, 3)
  t.same(await countEvents(stores), { rows: 16, uuids: 16, volume: 16, properties: 16 })
})
