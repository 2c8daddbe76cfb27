import { randomInt, randomUUID } from 'node:crypto'
import t from 'tap'
import type { PlainEvent } from '../../../test/support/event-block.ts'
import { HEADER } from '../../../schema/wire/streams.ts'
import { frameOf } from '../../../schema/wire/frame-message.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import { encodePayload, makeEvent, makeEvents, publishEvents, TEST_KEY } from '../../testing/publish-events.ts'
import { countEvents, silentLogger, startTestPartition, startTestStores, waitUntilStored } from '../../testing/start-test-partition.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createPipelineMetrics } from '../../pipeline-metrics.ts'
import type { PartitionMessage } from '../events-reader.ts'
import { excludeOwnRows } from './confirm-duplicates.ts'
import { createDuplicateFilter, createDuplicateFilters, type DuplicateFilter } from './duplicate-filter.ts'
import { FingerprintMemory } from './fingerprint-memory.ts'
import { loadFingerprints } from './load-fingerprints.ts'
import { createLookUpEvents, type EventIdentity, type LookUpEvents } from './look-up-events.ts'
import { StoredUuids } from './stored-uuids.ts'
import { RemovalWatch } from './watch-removals.ts'

const DAY_MS = 86_400_000

/** What ClickHouse would hold, and what the plain model says of the same events: compared pair by pair, no hashes. */
class Store {
  readonly events: PlainEvent[] = []
  asked = 0

  has (event: PlainEvent): boolean {
    return this.events.some((other) => isSame(event, other))
  }

  readonly lookUp: LookUpEvents = async (identities: readonly EventIdentity[]) => {
    this.asked += identities.length
    return identities.map((identity) => this.has({
      ...makeEvent(),
      project_id: identity.projectId,
      uuid: uuidOf(identity.uuidHex),
      event: Buffer.from(identity.event).toString(),
      distinct_id: Buffer.from(identity.distinctId).toString(),
      timestamp: identity.day * DAY_MS
    }))
  }
}

function isSame (a: PlainEvent, b: PlainEvent): boolean {
  const day = (event: PlainEvent): number => Math.floor(event.timestamp / DAY_MS)
  return a.project_id === b.project_id && a.uuid === b.uuid && a.event === b.event && a.distinct_id === b.distinct_id &&
    Math.abs(day(a) - day(b)) <= 1
}

function uuidOf (nativeHex: string): string {
  const bytes = Buffer.from(nativeHex, 'hex')
  const hex = Buffer.concat([bytes.subarray(0, 8).reverse(), bytes.subarray(8).reverse()]).toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

function makeUuid7 (ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

interface Sent { message: PartitionMessage, events: PlainEvent[] }

let sequence = 0

/** @param hasKey  Whether ingest knew the secret. */
function send (events: PlainEvent[], hasKey = true): Sent {
  const payload = encodePayload(events, { key: hasKey ? TEST_KEY : null })
  sequence++
  const message: PartitionMessage = {
    sequence,
    storedAt: Date.now(),
    rows: events.length,
    layout: 1,
    receivedAt: Date.now(),
    oldestUuidAt: Infinity,
    keyId: hasKey ? TEST_KEY.id : '',
    payload,
    frame: frameOf(payload, events.length),
    headers: {},
    ackSubject: ''
  }
  eventsOf.set(message, events)
  return { message, events }
}

function rangeOf (batch: readonly Sent[], deduplicated: BatchRange['deduplicated']): BatchRange {
  const [first, last] = [batch[0]!.message.sequence, batch.at(-1)!.message.sequence]
  return { first, last, messages: batch.length, layout: 1, settings: 1, receivedBy: [], deduplicated }
}

/** The rows that are to be inserted. */
function keptOf (batch: readonly Sent[], deduplicated: BatchRange['deduplicated']): PlainEvent[] {
  const ranges = new Map(deduplicated)
  return batch.flatMap(({ message, events }) => events.filter((_, row) => {
    const out = ranges.get(message.sequence) ?? []
    for (let i = 0; i < out.length; i += 2) if (row >= out[i]! && row < out[i + 1]!) return false
    return true
  }))
}

/** The events of the messages that were sent. */
const eventsOf = new WeakMap<PartitionMessage, PlainEvent[]>()

/** Knows the uuids that are stored now, and takes some others for them. */
function readUuids (store: Store): Pick<StoredUuids, 'knows' | 'findRows'> {
  const stored = new Set(store.events.map(({ uuid }) => uuid))
  return {
    knows: () => true,
    findRows: async (message) => new Set(eventsOf.get(message)!.flatMap(({ uuid }, row) =>
      stored.has(uuid) || randomInt(5) === 0 ? [row] : []))
  }
}

/** A few uuids, names, ids, projects and days, so that most events resemble an earlier one and many equal it. */
function createRandomEvent (): () => PlainEvent {
  const uuids = Array.from({ length: 12 }, () => randomUUID())
  const pick = <T>(values: readonly T[]): T => values[randomInt(values.length)]!
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  return () => makeEvent({
    uuid: pick(uuids),
    project_id: pick([1, 1, 1, 2]),
    event: pick(['paid', 'paid', 'seen']),
    distinct_id: pick(['a', 'a', 'ab', 'b']),
    timestamp: today + pick([-2, -1, 0, 0, 0, 1, 2]) * DAY_MS + randomInt(DAY_MS)
  })
}

t.test('decides as a plain comparison with all that is stored would, through crashes and changes of owner', async (t) => {
  for (let run = 0; run < 40; run++) {
    const store = new Store()
    const randomEvent = createRandomEvent()
    // A new owner reads stored events; sometimes without the secret.
    const takeOver = (): DuplicateFilter => {
      // Sometimes the memory reaches back nowhere, and the uuids that were stored before are known instead.
      const isCovered = randomInt(2) === 0
      const memory = new FingerprintMemory(isCovered ? 0 : Date.now() + DAY_MS, { keyId: TEST_KEY.id })
      const uuids = readUuids(store)
      if (!isCovered) {
        const deps = { memory, lookUpEvents: store.lookUp, onLookUp: () => {} }
        return createDuplicateFilter(randomInt(3) > 0 ? { ...deps, uuids } : deps)
      }
      const { message } = send(store.events.length === 0 ? [makeEvent()] : store.events, randomInt(3) > 0)
      if (store.events.length > 0) memory.addRows(message, [0, store.events.length])
      return createDuplicateFilter({ memory, lookUpEvents: store.lookUp, onLookUp: () => {} })
    }
    let filter = takeOver()
    for (let step = 0; step < 15; step++) {
      const batch = Array.from({ length: randomInt(1, 4) }, () =>
        send(Array.from({ length: randomInt(1, 9) }, randomEvent), randomInt(4) > 0))
      const messages = batch.map(({ message }) => message)
      const deduplicated = await filter.decide(messages, { lookUpAll: randomInt(5) === 0 })

      const expected: PlainEvent[] = []
      for (const event of batch.flatMap(({ events }) => events)) {
        if (!store.has(event) && !expected.some((other) => isSame(event, other))) expected.push(event)
      }
      const kept = keptOf(batch, deduplicated)
      t.same(kept, expected)

      const outcome = randomInt(5)
      // It died before the insert: nothing is stored, the record is repeated by the next owner.
      if (outcome === 0) filter = takeOver()
      store.events.push(...kept)
      // It died after the insert and before it remembered; else the range is confirmed.
      if (outcome === 1) filter = takeOver()
      filter.remember(messages, rangeOf(batch, deduplicated))
    }
  }
})

t.test('a row is no duplicate of one that is itself a duplicate, even where memory cannot compare', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const [first, dayBefore, twoDaysBefore] = [0, 1, 2].map((days) =>
    makeEvent({ uuid: '018bcfe5-687b-7000-8000-000000000001', timestamp: Date.now() - days * DAY_MS })) as [PlainEvent, PlainEvent, PlainEvent]
  const batch = [send([first], false), send([dayBefore, twoDaysBefore])]

  const deduplicated = await filter.decide(batch.map(({ message }) => message), { lookUpAll: false })

  t.same(keptOf(batch, deduplicated), [first, twoDaysBefore])
})

t.test('remembers nothing of a batch that was not stored', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const events = makeEvents(10)

  t.same(await filter.decide([send(events).message], { lookUpAll: false }), [])
  t.same(await filter.decide([send(events).message], { lookUpAll: false }), [], 'the first was refused, or a crash came')
})

t.test('decides duplicates of a large batch in memory, and asks ClickHouse about a handful of them', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const events = makeEvents(1000)
  const first = send(events)
  filter.remember([first.message], rangeOf([first], await filter.decide([first.message], { lookUpAll: false })))
  store.events.push(...events)

  const again = [send(events), send([...makeEvents(5), ...events])]
  const deduplicated = await filter.decide(again.map(({ message }) => message), { lookUpAll: false })

  t.same(deduplicated, [[again[0]!.message.sequence, [0, 1000]], [again[1]!.message.sequence, [5, 1005]]])
  t.ok(store.asked > 0 && store.asked < 50, `${store.asked} asked`)
})

t.test('one removed event among the repeats of a hundred messages is stored again, and nothing else', async (t) => {
  const { client } = await createTestClickHouse(t)
  const filters = createDuplicateFilters({
    clickhouse: client,
    fingerprintKey: async () => TEST_KEY,
    metrics: createPipelineMetrics(() => []),
    logger: silentLogger
  })
  const filter = await filters.open({ eventClass: 'live', number: 0 })
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

t.test('a sample finds truncated messages beside repeats of events that are still stored', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const [kept, removed] = [makeEvents(150), makeEvents(30)]
  const first = send([...kept, ...removed])
  filter.remember([first.message], rangeOf([first], []))
  store.events.push(...kept)
  const batch = [kept.slice(0, 50), kept.slice(50, 100), removed, kept.slice(100)].map((events) => send(events))
  const deduplicated = await filter.decide(batch.map(({ message }) => message), { lookUpAll: false })
  t.same(keptOf(batch, deduplicated), removed)
})

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
  const decide = async (oldestUuidAt: number): Promise<BatchRange['deduplicated']> => {
    const { message } = send([...makeEvents(7), ...events])
    return await filter.decide([{ ...message, oldestUuidAt }], { lookUpAll: false })
  }

  t.match(await decide(0), [[sequence, [7, 57]]])
  t.equal((await decide(yearAgo))[0]![1].length, 50, 'live: every second one, whose uuid tells its age')
  t.match(await decide(-Infinity), [[sequence, [7, 57]]], 'a dead letter that is replayed')
  t.same(asked, [57, 25, 57])
})

t.test('looks old events up while another process may store them in the other class', async (t) => {
  const uuids = {
    knows: (_madeSince: number, confirmedBefore: number) => confirmedBefore < Infinity,
    findRows: async () => new Set<number>()
  }
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(Date.now() + DAY_MS, { keyId: TEST_KEY.id }),
    lookUpEvents: store.lookUp,
    onLookUp: () => {},
    uuids,
    confirmedElsewhere: () => Infinity
  })

  await filter.decide([send(makeEvents(7)).message], { lookUpAll: false })

  t.equal(store.asked, 7)
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

t.test('tells the rows of a doubtful insert in one pass over its duplicates', async (t) => {
  const { message } = send(makeEvents(1000))
  const even = Array.from({ length: 500 }, (_, i) => [2 * i, 2 * i + 1]).flat()
  let reads = 0
  const counted = <T extends object>(list: T): T => new Proxy(list, {
    get (target, name) {
      reads++
      return Reflect.get(target, name)
    }
  })
  const range = rangeOf([{ message, events: [] }], counted([[message.sequence, counted(even)]]))

  const left = await excludeOwnRows([message], [[message.sequence, [0, 1000]]], {
    doubtful: [{ range, token: 'doubtful' }], lookUpEvents: async (identities) => identities.map(() => true)
  })

  t.same(left, [[message.sequence, even]], 'its duplicates, and nothing that it stored')
  t.ok(reads < 1000 * 12, `${reads} reads of 1000 bounds for 1000 rows`)
})

/** ClickHouse that gives these answers in turn. */
function answerInTurn (answers: readonly unknown[][]): { clickhouse: ClickHouse, asked: () => number } {
  let asked = 0
  const query = async (): Promise<unknown> => ({ json: async () => answers[asked++] })
  return { clickhouse: { query } as unknown as ClickHouse, asked: () => asked }
}

t.test('an event that a replica lacks is stored when the replica has caught up', async (t) => {
  const event = (uuidHex: string): EventIdentity =>
    ({ projectId: 1, uuidHex: uuidHex.repeat(16), event: Buffer.from('paid'), distinctId: Buffer.from('a'), day: 20_000 })
  const stored = (uuidHex: string): unknown[] => [1, uuidHex.repeat(16), '70616964', '61', 20_000]
  const { clickhouse, asked } = answerInTurn([[stored('01')], [stored('02')], [stored('01')]])
  let waits = 0
  const lookUpEvents = createLookUpEvents(clickhouse, async () => { waits++ })

  t.same(await lookUpEvents([event('01'), event('02'), event('03')]), [true, true, false])
  t.same([asked(), waits], [2, 1])
  t.same(await lookUpEvents([event('01')]), [true], 'found events are stored, whichever replica lacks them')
  t.same([asked(), waits], [3, 1])
})
