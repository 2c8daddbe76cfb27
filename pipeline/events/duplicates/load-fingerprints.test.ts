import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { PlainEvent } from '../../../test/support/event-block.ts'
import { HEADER } from '../../../schema/wire/streams.ts'
import { makeEvent, makeEvents, publishEvents, TEST_KEY } from '../../testing/publish-events.ts'
import { countEvents, silentLogger, startTestPartition, startTestStores, waitUntilStored } from '../../testing/start-test-partition.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createPipelineMetrics } from '../../pipeline-metrics.ts'
import { createDuplicateFilter, createDuplicateFilters, type DuplicateFilter } from './duplicate-filter.ts'
import { loadFingerprints } from './load-fingerprints.ts'
import { createLookUpEvents } from './look-up-events.ts'
import { StoredUuids } from './stored-uuids.ts'
import { type Sent, send, rangeOf, makeUuid7 } from './testing/sent-messages.ts'

const DAY_MS = 86_400_000

t.test('a memory that is loaded recognises what ingest sends again', async (t) => {
  const stores = await startTestStores(t)
  const partition = await startTestPartition(t, stores)
  const events = makeEvents(300, (i) => ({ event: `e${i % 7} ✓`, distinct_id: 'ü'.repeat(i), timestamp: Date.now() - i * 3_600_000, project_id: 1 + i % 3 }))
  await publishEvents(stores.connection, events)
  await waitUntilStored(stores)
  await partition.stop()

  const memory = await loadFingerprints(stores.clickhouse.client, TEST_KEY)
  const asked: number[] = []
  const filter = createDuplicateFilter({
    memory, lookUpEvents: async (identities) => identities.map(() => true), onLookUp: (rows) => asked.push(rows)
  })
  const { message } = send(events)
  const deduplicated = await filter.decide([message], { lookUpAll: false })

  t.same(deduplicated, [[message.sequence, [0, 300]]])
  t.same(asked, [4], 'a sample')
})

t.test('a memory is loaded once for partitions that are opened together, kept for the next session, and loaded again after another owner', async (t) => {
  const partition = { eventClass: 'live', number: 0 } as const
  let loads = 0
  let isAway = false
  const clickhouse = {
    query: async () => ({ json: async () => [] }),
    exec: async () => {
      if (isAway) throw new Error('socket hang up')
      loads++
      return { stream: [] }
    }
  } as unknown as ClickHouse
  const metrics = createPipelineMetrics(() => [])
  const filters = createDuplicateFilters({
    clickhouse, fingerprintKey: async () => TEST_KEY, metrics, logger: silentLogger
  })

  await Promise.all([filters.open(partition), filters.open({ ...partition, eventClass: 'historical' })])
  await filters.open(partition)
  t.equal(loads, 1)
  filters.close(partition)
  isAway = true
  await t.rejects(filters.open(partition))
  isAway = false
  await filters.open(partition)

  t.equal(loads, 2)
})

t.test('asks ClickHouse about few old events once their uuids are read from it', async (t) => {
  const stores = await startTestStores(t)
  const { client } = stores.clickhouse
  const weekAgo = Date.now() - 7 * DAY_MS
  const weekOld = (): PlainEvent => makeEvent({ uuid: makeUuid7(weekAgo), timestamp: weekAgo })
  const store = async (events: PlainEvent[]): Promise<unknown> => await client.insert({
    table: 'events', values: events.map((event) => ({ ...event, inserted_at: event.timestamp })), format: 'JSONEachRow'
  })
  const stored = Array.from({ length: 300 }, weekOld)
  await store(stored)
  const memory = await loadFingerprints(client, TEST_KEY)
  const uuids = new StoredUuids({ clickhouse: client, logger: silentLogger })
  const asked: number[] = []
  const filter = createDuplicateFilter({
    memory, uuids, lookUpEvents: createLookUpEvents(client), onLookUp: (rows) => asked.push(rows)
  })
  const sendOld = (events: PlainEvent[]): Sent => {
    const sent = send(events)
    return { ...sent, message: { ...sent.message, oldestUuidAt: weekAgo } }
  }
  const decide = async ({ message }: Sent): Promise<unknown> => await filter.decide([message], { lookUpAll: false })

  const first = sendOld([...stored.slice(0, 3), ...Array.from({ length: 100 }, weekOld)])
  t.same(await decide(first), [[first.message.sequence, [0, 3]]])
  t.same(asked, [103], 'nothing is read yet, and nobody waits for it')
  await waitFor(() => uuids.knows(0, memory.completeSince))

  const second = sendOld([...Array.from({ length: 500 }, weekOld), ...stored])
  t.same(await decide(second), [[second.message.sequence, [500, 800]]])
  t.same(asked, [103, 300], 'the stored ones alone')

  await store(second.events.slice(0, 500))
  filter.remember([second.message], rangeOf([second], [[second.message.sequence, [500, 800]]]))
  const third = sendOld(second.events)
  t.same(await decide(third), [[third.message.sequence, [0, 800]]], 'what was stored since is remembered')
})

t.test('an import that is repeated after weeks stores nothing twice, whatever its uuids are made of', async (t) => {
  const stores = await startTestStores(t)
  const { client } = stores.clickhouse
  const yearAgo = Date.now() - 365 * DAY_MS
  const events = makeEvents(50, (i) => ({ uuid: i % 2 === 0 ? makeUuid7(yearAgo) : randomUUID(), timestamp: yearAgo }))
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: events.map((event) => ({ ...event, inserted_at: Date.now() - 21 * DAY_MS }))
  })
  const memory = await loadFingerprints(client, TEST_KEY)
  const asked: number[] = []
  const filter = createDuplicateFilter({
    memory, lookUpEvents: createLookUpEvents(client), onLookUp: (rows) => asked.push(rows)
  })
  const decide = async (oldestUuidAt: number) => {
    const { message } = send([...makeEvents(7), ...events])
    const deduplicated = await filter.decide([{ ...message, oldestUuidAt }], { lookUpAll: false })
    return deduplicated.map(([sequence, rows]) => [sequence - message.sequence, rows] as const)
  }

  t.match(await decide(0), [[0, [7, 57]]])
  t.equal((await decide(yearAgo))[0]![1].length, 50, 'live: every second one, whose uuid tells its age')
  t.match(await decide(-Infinity), [[0, [7, 57]]], 'a dead letter that is replayed')
  t.same(asked, [57, 25, 57])
})

t.test('an event is recognised that came in the other class since the memories were loaded', async (t) => {
  const stores = await startTestStores(t)
  const { client } = stores.clickhouse
  const filters = createDuplicateFilters({
    clickhouse: client,
    fingerprintKey: async () => TEST_KEY,
    metrics: createPipelineMetrics(() => []),
    logger: silentLogger
  })
  const [live, historical] = await Promise.all([
    filters.open({ eventClass: 'live', number: 0 }), filters.open({ eventClass: 'historical', number: 0 })
  ])
  const weekAgo = Date.now() - 7 * DAY_MS
  const uuids = [() => makeUuid7(weekAgo), () => makeUuid7(Date.now() + DAY_MS), randomUUID]
  const events = makeEvents(30, (i) => ({ uuid: uuids[i % 3]!(), timestamp: weekAgo }))
  const store = async (filter: DuplicateFilter, sent: Sent): Promise<void> => {
    await client.insert({ table: 'events', format: 'JSONEachRow', values: sent.events })
    filter.remember([sent.message], rangeOf([sent], []))
  }
  const decide = async (filter: DuplicateFilter, { message }: Sent, oldestUuidAt: number): Promise<number> => {
    const decided = await filter.decide([{ ...message, oldestUuidAt }], { lookUpAll: false })
    return decided.reduce((sum, [, [from = 0, to = 0]]) => sum + to - from, 0)
  }

  await store(live, send(events))
  const imported = send([...makeEvents(5), ...events.map((event) => ({ ...event, timestamp: weekAgo + DAY_MS }))])
  t.equal(await decide(historical, imported, 0), 30, 'imported with a time of the next day')

  const old = send(makeEvents(10, () => ({ uuid: makeUuid7(weekAgo), timestamp: weekAgo })))
  await store(historical, old)
  t.equal(await decide(live, send(old.events), weekAgo), 10, 'captured later')
})

t.test('counts events once whose ingest does not know the secret, before and after it does', async (t) => {
  const stores = await startTestStores(t)
  const first = await startTestPartition(t, stores)
  const events = makeEvents(20)
  const old = { [HEADER.received]: String(Date.now()) }

  for (const key of [null, undefined, null]) {
    await publishEvents(stores.connection, events, { headers: old, ...(key === null && { key }) })
    await waitUntilStored(stores)
  }
  await first.stop()
  await startTestPartition(t, stores, { owner: 'another' })
  await publishEvents(stores.connection, [...events, ...makeEvents(1)])
  await waitUntilStored(stores)

  t.match(await countEvents(stores), { rows: 21, uuids: 21 })
})
