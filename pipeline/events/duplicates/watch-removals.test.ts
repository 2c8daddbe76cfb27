import t from 'tap'
import type { PlainEvent } from '../../../test/support/event-block.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import { makeEvents, publishEvents, TEST_KEY } from '../../testing/publish-events.ts'
import { countEvents, silentLogger, startTestPartition, startTestStores, waitUntilStored } from '../../testing/start-test-partition.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createPipelineMetrics } from '../../pipeline-metrics.ts'
import { createDuplicateFilters, type DuplicateFilter } from './duplicate-filter.ts'
import { RemovalWatch } from './watch-removals.ts'
import { type Sent, send, rangeOf, keptOf, answerInTurn } from './testing/sent-messages.ts'

async function openFilter (clickhouse: ClickHouse): Promise<DuplicateFilter> {
  const filters = createDuplicateFilters({
    clickhouse, fingerprintKey: async () => TEST_KEY, metrics: createPipelineMetrics(() => []), logger: silentLogger
  })
  return await filters.open({ eventClass: 'live', number: 0 })
}

t.test('one removed event among the repeats of a hundred messages is stored again, and nothing else', async (t) => {
  const { client } = await createTestClickHouse(t)
  const filter = await openFilter(client)
  const store = async (batch: readonly Sent[], deduplicated: BatchRange['deduplicated']): Promise<void> => {
    const values = keptOf(batch, deduplicated)
    if (values.length > 0) await client.insert({ table: 'events', format: 'JSONEachRow', values })
    filter.remember(batch.map(({ message }) => message), rangeOf(batch, deduplicated))
  }
  const events = makeEvents(1000)
  const again = async (): Promise<PlainEvent[]> => {
    const batch = Array.from({ length: 100 }, (_, i) => send(events.slice(10 * i, 10 * i + 10)))
    const deduplicated = await filter.decide(batch.map(({ message }) => message), { lookUpAll: false })
    await store(batch, deduplicated)
    return keptOf(batch, deduplicated)
  }
  t.same(await again(), events)
  t.same(await again(), [])

  for (const [i, remove] of ['DELETE FROM events', 'ALTER TABLE events DELETE'].entries()) {
    const removed = events[317 + i]!
    await client.command({ query: `${remove} WHERE uuid = '${removed.uuid}'`, clickhouse_settings: { mutations_sync: '1' } })
    t.same(await again(), [removed], remove)
    t.same(await again(), [], 'it is there again')
  }
})

t.test('once an event is missing that no mutation removed, each repeat is looked up', async (t) => {
  const { client } = await createTestClickHouse(t)
  const insert = async (values: readonly PlainEvent[]): Promise<unknown> => await client.insert({ table: 'events', format: 'JSONEachRow', values })
  const events = makeEvents(1000)
  await insert(events)
  const filter = await openFilter(client)
  const decide = async (batch: readonly Sent[]): Promise<PlainEvent[]> =>
    keptOf(batch, await filter.decide(batch.map(({ message }) => message), { lookUpAll: false }))
  const sendAll = (): Sent[] => Array.from({ length: 100 }, (_, i) => send(events.slice(10 * i, 10 * i + 10)))
  t.same(await decide(sendAll()), [])

  await client.command({ query: 'TRUNCATE TABLE events' })
  await insert(events.filter((_, i) => i !== 317))
  t.same(await decide([send(events.slice(317, 318))]), events.slice(317, 318))
  t.same(await decide(sendAll()), events.slice(317, 318))
})

t.test('only a memory that begins before a mutation ends may lack rows', async (t) => {
  const running = [{ name: 'a', isDone: 1 }, { name: 'b', isDone: 0 }]
  const ended = [{ name: 'a', isDone: 1 }, { name: 'b', isDone: 1 }]
  const { clickhouse, asked } = answerInTurn([[], running, ended, ended, [...ended, { name: 'c', isDone: 1 }], ended])
  const removals = new RemovalWatch(clickhouse, '')
  const first = performance.now()
  await removals.look()
  t.equal(await removals.mayLack(first), true, 'what runs may remove more')
  t.same([await removals.mayLack(first), asked()], [true, 2], 'nothing more is asked')
  t.equal(await removals.mayLack(performance.now()), true, 'it has ended since')
  t.equal(await removals.mayLack(performance.now()), false)
  t.equal(await removals.mayLack(performance.now()), true, 'it began and ended since')
  t.equal(await removals.mayLack(performance.now()), false, 'ClickHouse forgot one')
})

t.test('events that somebody removed from ClickHouse can be sent again', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)
  const events = makeEvents(50)
  await publishEvents(stores.connection, events)
  await waitUntilStored(stores)

  await stores.clickhouse.client.command({ query: 'TRUNCATE TABLE events' })
  await publishEvents(stores.connection, events)
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 50)
})
