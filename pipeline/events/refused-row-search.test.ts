import { setTimeout as delay } from 'node:timers/promises'
import { zstdCompressSync } from 'node:zlib'
import { jetstreamManager } from '@nats-io/jetstream'
import { pino } from 'pino'
import t from 'tap'
import { scanDeadLetters } from '../../platform/dead-letters/read-dead-letters.ts'
import { readDeadLetters } from '../../test/support/read-letters.ts'
import { purgeDeadLetters, replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { FINGERPRINT_BYTES } from '../../schema/wire/frame-message.ts'
import type { PlainEvent } from '../../test/support/event-block.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createPipelineMetrics } from '../pipeline-metrics.ts'
import type { Partition } from '../stream/find-partitions.ts'
import { PartitionState } from '../stream/partition-state.ts'
import { makeEvent, makeEvents, publishEvents } from '../testing/publish-events.ts'
import {
  countEvents, startTestPartition, startTestStores, type TestStores, waitUntilStored
} from '../testing/start-test-partition.ts'
import { deadLetterRows } from './dead-letter-refused-rows.ts'
import type { PartitionMessage } from './events-reader.ts'
import { createClickHouseAgent, createInsertFrames, InsertError, type InsertFrames } from './insert/insert-frames.ts'

/** Lets ClickHouse refuse events of one name. */
async function refusePoison ({ clickhouse }: TestStores): Promise<void> {
  await clickhouse.client.command({ query: "ALTER TABLE events ADD CONSTRAINT healthy CHECK event != 'poison'" })
}

t.test('finds one poisoned row among 10,000 healthy ones, and stores those without delay', async (t) => {
  const stores = await startTestStores(t)
  await refusePoison(stores)
  for (let i = 0; i < 100; i++) {
    const events = makeEvents(100)
    if (i === 37) events[61] = makeEvent({ event: 'poison', project_id: 7 })
    await publishEvents(stores.connection, events)
  }

  await startTestPartition(t, stores)
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 9999, uuids: 9999, volume: 9999, properties: 9999 })
  const letters = await readDeadLetters(stores.connection)
  t.match(letters, [{
    stage: 'writer', reason: 'refused', errorCode: '469', project: 7, event: 'poison', rows: 1, subject: 'events.live.0'
  }])
  t.match(letters[0]?.content, [{ event: 'poison', properties: '{"amount":42,"plan":"pro"}' }])
})

t.test('stores a replayed event once, however often it is replayed', async (t) => {
  const stores = await startTestStores(t)
  await refusePoison(stores)
  await startTestPartition(t, stores)
  await publishEvents(stores.connection, [makeEvent({ event: 'poison' }), ...makeEvents(9)])
  await waitUntilStored(stores)

  t.same(await replayDeadLetters(stores.connection, { dryRun: true }), { matched: 1, replayed: 0, skipped: 0 })
  t.same(await replayDeadLetters(stores.connection, { event: 'other' }), { matched: 0, replayed: 0, skipped: 0 })
  await stores.clickhouse.client.command({ query: 'ALTER TABLE events DROP CONSTRAINT healthy' })
  const [letter] = await readDeadLetters(stores.connection, { project: 1, stage: 'writer' })
  t.same(await replayDeadLetters(stores.connection, { id: letter!.id }), { matched: 1, replayed: 1, skipped: 0 })
  t.same(await readDeadLetters(stores.connection), [])
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 10, uuids: 10, volume: 10, properties: 10 })
})

t.test('stores a copy of an event that is refused, in the same batch and message or in others', async (t) => {
  const stores = await startTestStores(t)
  await stores.clickhouse.client.command({ query: "ALTER TABLE events ADD CONSTRAINT healthy CHECK ip != '6.6.6.6'" })
  const [first, second, third] = makeEvents(3)
  const refuse = (event: PlainEvent = makeEvent()): PlainEvent => ({ ...event, ip: '6.6.6.6' })
  await publishEvents(stores.connection, [refuse(first), ...makeEvents(3), first!, refuse(second), refuse(third)])
  await publishEvents(stores.connection, [second!, ...makeEvents(2)])
  await publishEvents(stores.connection, [third!, third!])

  await startTestPartition(t, stores)
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 8, uuids: 8, volume: 8, properties: 8 })
  t.equal((await readDeadLetters(stores.connection, { reason: 'refused' })).length, 3)
})

t.test('dead-letters a message that is no frame, whole, and continues', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)

  await publishEvents(stores.connection, makeEvents(2), { payload: Buffer.alloc(100, 'garbage') })
  await publishEvents(stores.connection, makeEvents(2), {
    payload: Buffer.concat([Buffer.alloc(16), zstdCompressSync(Buffer.from('no block'))])
  })
  await publishEvents(stores.connection, makeEvents(2), { headers: { 'Millrace-Rows': 'many' } })
  // Its two fingerprints are equal, so that one row would be left out.
  await publishEvents(stores.connection, makeEvents(2), { payload: Buffer.alloc(2 * FINGERPRINT_BYTES + 30, 'equal bytes.') })
  await publishEvents(stores.connection, makeEvents(5))
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 5)
  t.equal((await readDeadLetters(stores.connection, { stage: 'writer', reason: 'malformed' })).length, 4)
  const [first] = await readDeadLetters(stores.connection)
  const scan = scanDeadLetters(stores.connection)
  await scan.next()
  await scan.return(null)
  const { state } = await (await jetstreamManager(stores.connection)).streams.info('DEAD_LETTER')
  t.equal(state.consumer_count, 0, 'who read them left nothing in NATS')
  t.equal(first?.body.length, 100)
  t.same(await purgeDeadLetters(stores.connection, { reason: 'malformed', limit: 2 }), { matched: 2, purged: 2 })
  t.equal((await readDeadLetters(stores.connection)).length, 2)
})

t.test('waits while the dead-letter stream is full, and loses nothing', async (t) => {
  const stores = await startTestStores(t, { deadLetterMaxBytes: 1_048_576 })
  const partition = await startTestPartition(t, stores)

  for (const word of ['garbage', 'rubbish', 'waste']) {
    await publishEvents(stores.connection, makeEvents(1), { payload: Buffer.alloc(500_000, word) })
  }
  await publishEvents(stores.connection, makeEvents(5))
  await waitFor(() => partition.state.phase === 'dead-letter-full')
  t.equal((await countEvents(stores)).rows, 0)
  await purgeDeadLetters(stores.connection, { limit: 1 })
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 5)
  t.equal((await readDeadLetters(stores.connection)).length, 2)
})

t.test('stores a message that touches more months than one insert may', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)

  await publishEvents(stores.connection, makeEvents(150, (i) => ({ timestamp: Date.UTC(2010, i, 5) })))
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 150, uuids: 150, volume: 150, properties: 150 })
  t.same(await readDeadLetters(stores.connection), [])
})

t.test('dead-letters nothing while the table lacks a column', async (t) => {
  const stores = await startTestStores(t)
  await stores.clickhouse.client.command({ query: 'ALTER TABLE events DROP COLUMN ip' })
  const partition = await startTestPartition(t, stores)

  await publishEvents(stores.connection, makeEvents(5))
  await waitFor(() => partition.state.phase === 'failing')
  await stores.clickhouse.client.command({ query: 'ALTER TABLE events ADD COLUMN ip String' })
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 5)
  t.same(await readDeadLetters(stores.connection), [])
})

t.test('tries a row again that was refused just before a migration ended', async (t) => {
  const stores = await startTestStores(t)
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  const insert = createInsertFrames({ url: stores.clickhouse.url, agent })
  let tries = 0
  const insertFrames: InsertFrames = async (range) => {
    // The table has the column by the time it is looked at.
    if (++tries === 1) throw new InsertError('Code: 16. DB::Exception: No such column ip in table events', 16)
    await insert(range)
  }
  await publishEvents(stores.connection, makeEvents(1))

  await startTestPartition(t, stores, { store: { insertFrames } })
  await waitUntilStored(stores)

  t.equal((await countEvents(stores)).rows, 1)
  t.same(await readDeadLetters(stores.connection), [])
})

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

  await startTestPartition(t, stores, { store: { insertFrames } })
  await waitUntilStored(stores)

  t.equal(refused, 3)
  t.same(await countEvents(stores), { rows: 16, uuids: 16, volume: 16, properties: 16 })
})

t.test('keeps what it cannot dead-letter: it waits while no stream takes the dead letter, and reports that when it stops', async (t) => {
  const { url } = await startTestNats(t)
  const logger = pino({ level: 'silent' })
  const connection = await connectNats({ url, name: 'test', logger })
  t.teardown(() => connection.close())
  const partition: Partition = { eventClass: 'live', number: 0 }
  const state = new PartitionState('live.0')
  const stop = new AbortController()
  const message = { sequence: 1, headers: {}, payload: Buffer.from('garbage') } as unknown as PartitionMessage

  const taken = deadLetterRows(
    { partition, connection, state, metrics: createPipelineMetrics(() => [state]), logger, stop: stop.signal },
    { message, error: null, token: 'life:live.0:1-1' })
  await waitFor(() => state.phase === 'retrying' && state.lastError !== null)
  t.notOk(state.isHealthy(Date.now()))
  t.equal(await Promise.race([taken, delay(0, 'still waits')]), 'still waits')
  stop.abort()

  t.equal(await taken, false)
})
