import { randomBytes } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { readDeadLetters } from '../../test/support/read-letters.ts'
import { checkBooks, countStored } from '../accounting/check-books.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { minuteOfReceipt } from '../../schema/wire/ledger.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import {
  startClickHouseFaultProxy, type ClickHouseFaultProxy, type InsertFault
} from '../../test/faults/system/clickhouse-fault-proxy.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { openPartitionRecords } from '../stream/partition-records.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, waitUntilStored, type TestStores } from '../testing/start-test-partition.ts'
import { createClickHouseAgent, createInsertFrames, type InsertFrames } from './insert/insert-frames.ts'

const PARTITION = { eventClass: 'live', number: 0 } as const

async function startProxy (
  t: TestContext, stores: TestStores
): Promise<{ proxy: ClickHouseFaultProxy, insertFrames: InsertFrames }> {
  const proxy = await startClickHouseFaultProxy(stores.clickhouse.url)
  const agent = createClickHouseAgent()
  t.teardown(async () => {
    agent.destroy()
    await proxy.close()
  })
  return { proxy, insertFrames: createInsertFrames({ url: proxy.url, agent }) }
}

/** The faults of a list, one an insert, then none. */
function inTurn (faults: readonly InsertFault[]): () => InsertFault | undefined {
  const left = [...faults]
  return () => left.shift()
}

const LOST: InsertFault = { kind: 'lose answer' }

function answer (code: number, name: string, text: string): InsertFault {
  return { kind: 'answer', code, name, text }
}

t.test('stores once whatever ClickHouse answers in between, and dead-letters nothing', async (t) => {
  const stores = await startTestStores(t)
  const { proxy, insertFrames } = await startProxy(t, stores)
  const partition = await startTestPartition(t, stores, { store: { insertFrames } })
  proxy.set(inTurn([
    LOST,
    answer(252, 'TOO_MANY_PARTS', 'Too many parts (3000 with average size of 1 MiB) in table events'),
    LOST,
    answer(241, 'MEMORY_LIMIT_EXCEEDED', 'Memory limit (total) exceeded'),
    answer(9999, 'NEVER_HEARD_OF', 'something')
  ]))

  await publishEvents(stores.connection, makeEvents(100))
  await waitFor(() => partition.state.phase === 'retrying')
  await waitUntilStored(stores)

  t.equal(proxy.injected, 5)
  t.same(await countEvents(stores), { rows: 100, uuids: 100, volume: 100, properties: 100 })
  t.same(await readDeadLetters(stores.connection), [])
})

t.test('does not store again in pieces what a lost answer hides', async (t) => {
  const stores = await startTestStores(t)
  const { proxy, insertFrames } = await startProxy(t, stores)
  for (let i = 0; i < 4; i++) await publishEvents(stores.connection, makeEvents(25))
  proxy.set(inTurn([LOST, answer(27, 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', 'Cannot parse input')]))

  await startTestPartition(t, stores, { store: { insertFrames } })
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 100, uuids: 100, volume: 100, properties: 100 })
})

t.test('does not store again in pieces what a node stored that broke off', async (t) => {
  const stores = await startTestStores(t)
  const { proxy, insertFrames } = await startProxy(t, stores)
  for (let i = 0; i < 4; i++) await publishEvents(stores.connection, makeEvents(25))
  const text = 'Attempt to read after eof: while receiving packet from 127.0.0.1:9000, local address: 127.0.0.1:33966: Insertion status:'
  proxy.set(inTurn([{ kind: 'store and answer', code: 32, name: 'ATTEMPT_TO_READ_AFTER_EOF', text }]))

  await startTestPartition(t, stores, { store: { insertFrames } })
  await waitUntilStored(stores)

  t.equal(proxy.injected, 1)
  t.same(await countEvents(stores), { rows: 100, uuids: 100, volume: 100, properties: 100 })
})

t.test('does not store again in pieces what one shard stored and another refused', async (t) => {
  const stores = await startTestStores(t)
  const { proxy, insertFrames } = await startProxy(t, stores)
  for (let i = 0; i < 4; i++) await publishEvents(stores.connection, makeEvents(25))
  const refusal = { kind: 'store and answer', code: 469, name: 'VIOLATED_CONSTRAINT', text: 'Constraint is violated' } as const
  proxy.set(inTurn([refusal, refusal]))

  await startTestPartition(t, stores, { store: { insertFrames, isDistributed: true } })
  await waitUntilStored(stores)

  t.equal(proxy.injected, 2)
  t.same(await countEvents(stores), { rows: 100, uuids: 100, volume: 100, properties: 100 })
  t.same(await readDeadLetters(stores.connection), [])
})

t.test('what a lost answer hides is in the books as stored, its duplicates as duplicates, also after a crash', async (t) => {
  const stores = await startTestStores(t)
  const { connection, clickhouse } = stores
  const { proxy, insertFrames } = await startProxy(t, stores)
  const records = await openPartitionRecords(connection, { replicas: 1 })
  const stored = makeEvents(5)
  await publishEvents(connection, stored)
  const first = await startTestPartition(t, stores, { store: { insertFrames } })
  await waitUntilStored(stores)
  await first.stop()

  const events = makeEvents(25)
  await publishEvents(connection, [...events, ...stored])
  await publishEvents(connection, [...events.slice(0, 10), ...makeEvents(15)])
  // The first piece waits for the crash.
  const pieces = inTurn([LOST, answer(27, 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', 'Cannot parse input')])
  proxy.set(() => pieces() ?? answer(241, 'MEMORY_LIMIT_EXCEEDED', 'Memory limit (total) exceeded'))
  await publishEvents(connection, makeEvents(25))
  const second = await startTestPartition(t, stores, { owner: 'second', store: { insertFrames } })
  await waitFor(async () => (await records.read(PARTITION)).record?.doubtful !== undefined)
  await second.abort()
  proxy.set(undefined)
  await startTestPartition(t, stores, { owner: 'third', store: { insertFrames } })
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 70)
  const { record } = await records.read(PARTITION)
  t.match(record, { doubtful: undefined })
  const deps = { connection, clickhouse: clickhouse.client, cluster: '' }
  const minute = minuteOfReceipt(Date.now())
  const { drift, books } = await checkBooks(deps, { from: minute - 60, to: minute + 5 }, {
    countStored: async (span) => await countStored(deps, span), settleMs: 30_000
  })
  t.same(drift, [])
  t.ok(books.openedAt <= minute, 'the books go on')
  const totals = [...books.totals.values()]
  t.equal(totals.reduce((sum, { accepted }) => sum + accepted, 0), 85)
  t.equal(totals.reduce((sum, { duplicates }) => sum + duplicates, 0), 15)
})

t.test('waits while ClickHouse is unavailable, stops in time, and the next owner goes on', async (t) => {
  const stores = await startTestStores(t)
  const agent = createClickHouseAgent()
  const partition = await startTestPartition(t, stores, {
    store: { insertFrames: createInsertFrames({ url: 'http://127.0.0.1:1/millrace', agent }) }
  })

  await publishEvents(stores.connection, makeEvents(10))
  await waitFor(() => partition.state.phase === 'retrying')
  await partition.stop()
  const { record } = await (await openPartitionRecords(stores.connection, { replicas: 1 })).read(PARTITION)
  t.match(record, { owner: '', done: 0, range: { first: 1, last: 1, messages: 1 } })
  await startTestPartition(t, stores, { owner: 'another' })
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 10)
})

t.test('goes on when nats-server was killed and came back', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)
  await publishEvents(stores.connection, makeEvents(10))
  await waitUntilStored(stores)

  await stores.nats.kill('SIGKILL')
  await stores.nats.restart()
  await waitFor(async () => await publishEvents(stores.connection, makeEvents(10)))
  await waitUntilStored(stores)

  const { rows, uuids } = await countEvents(stores)
  t.equal(rows, uuids)
  t.ok(rows >= 20)
})

t.test('finds the messages again that another client pulled from its consumer', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)
  await publishEvents(stores.connection, makeEvents(10))
  await waitUntilStored(stores)

  // Without a subscription the server would not deliver to the thief at all.
  const thief = stores.connection.subscribe('thief')
  stores.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${EVENTS_STREAM}.writer-live-0`, '{"batch":5}', { reply: 'thief' })
  const manager = await jetstreamManager(stores.connection)
  await waitFor(async () => (await manager.consumers.info(EVENTS_STREAM, 'writer-live-0')).num_waiting >= 2)
  for (let i = 0; i < 6; i++) await publishEvents(stores.connection, makeEvents(10))
  await waitUntilStored(stores)

  t.ok(thief.getReceived() > 0)
  t.same(await countEvents(stores), { rows: 70, uuids: 70, volume: 70, properties: 70 })
})

t.test('takes a message that is larger than the usual pull', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores, { limits: { maxRows: 1000, maxBytes: 65_536, maxAgeMs: 50 } })
  const noise = randomBytes(300_000).toString('base64')

  await publishEvents(stores.connection, makeEvents(10))
  await publishEvents(stores.connection, makeEvents(1, () => ({ properties: `{"noise":"${noise}"}` })))
  await publishEvents(stores.connection, makeEvents(10))
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 21)
})

t.test('drops nothing when the stream was re-created and counts from 1 again', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)
  for (let i = 0; i < 3; i++) await publishEvents(stores.connection, makeEvents(10))
  await waitUntilStored(stores)

  await (await jetstreamManager(stores.connection)).streams.delete(EVENTS_STREAM)
  await ensureStreams(stores.connection, { replicas: 1, eventsMaxBytes: 1e9, deadLetterMaxBytes: 1e8 })
  t.equal(await publishEvents(stores.connection, makeEvents(10)), 1)
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 40, uuids: 40, volume: 40, properties: 40 })
})

t.test('looks every row up when messages of the recorded batch range are gone', async (t) => {
  const stores = await startTestStores(t)
  const { proxy, insertFrames } = await startProxy(t, stores)
  for (let i = 0; i < 3; i++) await publishEvents(stores.connection, makeEvents(10))
  const partition = await startTestPartition(t, stores, { store: { insertFrames } })
  await waitUntilStored(stores)
  proxy.set(inTurn([LOST]))
  for (let i = 0; i < 3; i++) await publishEvents(stores.connection, makeEvents(10))
  await waitFor(async () => (await countEvents(stores)).rows > 30)
  await partition.abort()

  const manager = await jetstreamManager(stores.connection)
  const { record } = await (await openPartitionRecords(stores.connection, { replicas: 1 })).read(PARTITION)
  if (record?.range != null) await manager.streams.deleteMessage(EVENTS_STREAM, record.range.first)
  await startTestPartition(t, stores, { owner: 'another' })
  await waitUntilStored(stores)

  const { rows, uuids, volume } = await countEvents(stores)
  t.equal(rows, uuids)
  t.equal(volume, rows)
})
