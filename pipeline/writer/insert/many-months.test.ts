import t from 'tap'
import { createPipelineMetrics } from '../../metrics.ts'
import { makeEvents, publishEvents } from '../../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, waitUntilStored } from '../../testing/start-test-partition.ts'

/** Above the 100 partitions that ClickHouse lets an insert touch by default. */
const MONTHS = 120

t.test('events of more months than ClickHouse lets an insert touch are one insert, refused by nobody', async (t) => {
  const stores = await startTestStores(t)
  const metrics = createPipelineMetrics(() => [])
  const monthsAgo = (months: number): number => Date.UTC(2026, 9 - months, 5)
  await publishEvents(stores.connection, makeEvents(MONTHS, (index) => ({ timestamp: monthsAgo(index) })))
  await startTestPartition(t, stores, { metrics })
  await waitUntilStored(stores)

  t.match(await countEvents(stores), { rows: MONTHS, uuids: MONTHS, volume: MONTHS })
  t.notMatch(await metrics.metrics.registry.metrics(), /batches_refused_total\{.*\} [1-9]/)
  t.match(await metrics.metrics.registry.metrics(), /batches_stored_total\{partition="live.0"\} 1\n/)
})
