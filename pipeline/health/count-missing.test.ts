import { open, readdir } from 'node:fs/promises'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { EVENTS_STREAM, PARTITIONS_BUCKET } from '../../schema/wire/streams.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { openPartitionRecords } from '../stream/partition-records.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { startTestPartition, startTestStores, type TestStores } from '../testing/start-test-partition.ts'
import { MissingCounter, type MissingReading } from './count-missing.ts'
import { findOldestAt } from './watch-streams.ts'

const MESSAGES = 120

async function createCounter ({ connection }: TestStores): Promise<MissingCounter> {
  const [records, bucket] = await Promise.all([
    openPartitionRecords(connection, { replicas: 1 }), openBucket(connection, PARTITIONS_BUCKET, { replicas: 1 })
  ])
  return new MissingCounter({ connection, records, bucket })
}

/** Two partitions that acknowledged some messages, and as many of them that wait. */
async function startWithBacklog (t: TestContext): Promise<{ stores: TestStores, counter: MissingCounter }> {
  const stores = await startTestStores(t)
  const counter = await createCounter(stores)
  const partitions = await startPartitions(t, stores)
  await publishAll(stores, 10)
  await waitUntilRead(stores)
  await waitFor(async () => (await counter.count())?.before === 0)
  for (const partition of partitions) await partition.stop()
  await publishAll(stores, MESSAGES)
  // As a pipeline does that cannot store anything at the moment.
  await counter.count()
  return { stores, counter }
}

async function startPartitions (t: TestContext, stores: TestStores): Promise<{ stop: () => Promise<void> }[]> {
  return await Promise.all([0, 1].map(async (number) =>
    await startTestPartition(t, stores, { partition: { eventClass: 'live', number } })))
}

async function publishAll ({ connection }: TestStores, messages: number): Promise<void> {
  for (let i = 0; i < messages; i++) await publishEvents(connection, makeEvents(20), { partition: i % 2 })
}

/** Delivery has stopped: messages still in the stream cannot be read. */
async function waitUntilRead ({ connection }: TestStores): Promise<void> {
  const manager = await jetstreamManager(connection, { checkAPI: false })
  await waitFor(async () => {
    // A server that has just started does not answer for some seconds on a busy machine.
    const consumers = await manager.consumers.list(EVENTS_STREAM).next()
    return consumers.length === 2 && consumers.every((each) => each.num_pending + each.num_ack_pending === 0)
  })
}

/**
 * Flips four bytes of a message in the middle of the one block of the events stream that still has messages. Of its
 * content: a damaged length can keep nats-server from ever becoming ready, which its supervisor tells, and not we.
 */
async function damageBlock ({ nats }: TestStores): Promise<void> {
  const folder = path.join(nats.dataDir, 'nats', 'jetstream', '$G', 'streams', EVENTS_STREAM, 'msgs')
  const [block = ''] = (await readdir(folder)).filter((name) => name.endsWith('.blk')).sort().reverse()
  await using handle = await open(path.join(folder, block), 'r+')
  const content = await handle.readFile()
  const position = content.indexOf('events.live.', content.length / 2) + 100
  await handle.write(content.subarray(position, position + 4).map((byte) => byte ^ 0xff), 0, 4, position)
}

async function countUntilSure (counter: MissingCounter): Promise<MissingReading[]> {
  const readings: MissingReading[] = []
  // It throws while a server that has just started does not answer.
  await waitFor(async () => {
    const reading = await counter.count()
    if (reading !== null) readings.push(reading)
    return readings.length === 5
  })
  return readings
}

for (const { what, end } of [
  { what: 'when nats-server starts after a crash', end: 'SIGKILL' },
  { what: 'while it is stopped, which it passes over', end: 'SIGTERM' }
] as const) {
  t.test(`four bytes that are damaged ${what} are seen as missing messages, by number and once`, async (t) => {
    const { stores, counter } = await startWithBacklog(t)
    if (end === 'SIGKILL') await stores.nats.kill('SIGKILL')
    else await stores.nats.stop()
    await damageBlock(stores)
    await stores.nats.restart()
    await waitFor(async () => await stores.connection.rtt().then(() => true))
    await startPartitions(t, stores)
    await waitUntilRead(stores)
    const result = await stores.clickhouse.client.query({ query: 'SELECT count() AS n FROM events', format: 'JSONEachRow' })
    const [{ n }] = await result.json<{ n: string }>() as [{ n: string }]
    const lost = MESSAGES + 10 - Number(n) / 20

    const readings = await countUntilSure(counter)

    t.ok(lost > 0, `${lost} messages are lost`)
    t.equal(readings.at(-1)?.missing, lost)
    t.equal(readings.filter(({ isNews }) => isNews).length, 1)
    const [other] = await countUntilSure(await createCounter(stores))
    t.match(other, { missing: lost, isNews: false, found: { messages: lost } }, 'and known to the next process')
  })
}

t.test('nothing is missing while messages come, are acknowledged, and partitions change their owner', async (t) => {
  const stores = await startTestStores(t)
  const counter = await createCounter(stores)
  const publishing = (async () => { for (let i = 0; i < 20; i++) await publishAll(stores, 20) })()
  const readings: MissingReading[] = []
  for (let round = 0; round < 3; round++) {
    const partitions = await startPartitions(t, stores)
    for (let i = 0; i < 20; i++) {
      const reading = await counter.count()
      if (reading !== null) readings.push(reading)
    }
    for (const partition of partitions) await partition.stop()
  }
  await publishing
  await startPartitions(t, stores)
  await waitUntilRead(stores)
  readings.push(...await countUntilSure(counter))

  t.ok(readings.some(({ before }) => before === 0))
  t.same([...new Set(readings.map(({ missing }) => missing))], [0])
})

t.test('a message that nats-server cannot read is as old as was known, not from the year 1', async (t) => {
  const unreadable = { messages: 1, first_seq: 7, first_ts: '0001-01-01T00:00:00Z' }
  const now = Date.now()

  t.equal(findOldestAt({ ...unreadable, first_ts: '2026-11-22T10:00:00Z' }, undefined), Date.parse('2026-11-22T10:00:00Z'))
  t.equal(findOldestAt({ ...unreadable, messages: 0 }, undefined), 0)
  t.ok(findOldestAt(unreadable, undefined) >= now, 'as old as the first poll that saw it')
  t.equal(findOldestAt(unreadable, { firstSequence: 7, oldestAt: 5000 }), 5000, 'and its age grows')
  t.ok(findOldestAt(unreadable, { firstSequence: 6, oldestAt: 5000 }) >= now)
})
