import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { openPartitionRecords } from '../../pipeline/stream/partition-records.ts'
import { makeEvents, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { countEvents, startTestStores, type TestStores, waitUntilStored } from '../../pipeline/testing/start-test-partition.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { createTestPostgres } from '../support/test-stores.ts'
import { startTestPipeline, type TestPipeline } from '../support/test-processes.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'

const PARTITION = { eventClass: 'live', number: 0 } as const

interface Stores extends TestStores {
  startPipeline: () => Promise<TestPipeline>
  /** The process that writes the partition. */
  readOwner: () => Promise<string | undefined>
  /** Resolves while an insert is under way. */
  waitForRange: () => Promise<void>
}

async function startStores (t: TestContext): Promise<Stores> {
  const [stores, postgres] = await Promise.all([startTestStores(t), createTestPostgres(t)])
  const records = await openPartitionRecords(stores.connection, { replicas: 1 })
  return {
    ...stores,
    startPipeline: async () => await startTestPipeline(t, {
      natsUrl: stores.nats.url,
      clickhouseUrl: stores.clickhouse.url,
      databaseUrl: postgres.url,
      env: { MILLRACE_BATCH_MAX_AGE_MS: '10', MILLRACE_BATCH_MAX_ROWS: '2000' }
    }),
    readOwner: async () => (await records.read(PARTITION)).record?.owner,
    waitForRange: async () => {
      const isRecorded = async (): Promise<boolean> => (await records.read(PARTITION)).record?.range != null
      await waitFor(isRecorded, { everyMs: 3 })
    }
  }
}

/** Events of a message, and the pause after each, in milliseconds: more than a pipeline stores. */
const EVENTS_OF_MESSAGE = 200
const PUBLISH_EVERY_MS = 20
/** Five batches. More would only be work for the machine, as long as processes start. */
const MAX_WAITING_MESSAGES = 50

/** Publishes events in three months until stopped, so that some always wait; returns their number. */
function publishSteadily ({ connection }: TestStores): { stop: () => Promise<number> } {
  const stopped = new AbortController()
  const sent = (async () => {
    const manager = await jetstreamManager(connection)
    let count = 0
    while (!stopped.signal.aborted) {
      const { state } = await manager.streams.info(EVENTS_STREAM)
      if (state.messages < MAX_WAITING_MESSAGES) {
        const events = makeEvents(EVENTS_OF_MESSAGE, (i) => ({ timestamp: Date.now() - (i % 3) * 31 * 86_400_000 }))
        await publishEvents(connection, events)
        count += EVENTS_OF_MESSAGE
      }
      await delay(PUBLISH_EVERY_MS)
    }
    return count
  })()
  return {
    stop: async () => {
      stopped.abort()
      return await sent
    }
  }
}

t.test('counts every event once, in all views, when it is killed ten times in the middle of an insert', async (t) => {
  const stores = await startStores(t)
  const load = publishSteadily(stores)

  for (let round = 0; round < 10; round++) {
    const pipeline = await stores.startPipeline()
    await stores.waitForRange()
    await delay(round * 4)
    await pipeline.kill('SIGKILL')
  }
  const sent = await load.stop()
  await stores.startPipeline()
  await waitUntilStored(stores)

  t.ok(sent > 1000)
  t.same(await countEvents(stores), { rows: sent, uuids: sent, volume: sent, properties: sent })
})

t.test('lets another process take over from a paused one, and inserts nothing twice', async (t) => {
  const stores = await startStores(t)
  const load = publishSteadily(stores)
  const paused = await stores.startPipeline()
  await stores.waitForRange()
  const owner = await stores.readOwner()
  t.ok(owner, 'it writes the partition')
  await paused.kill('SIGSTOP')
  const before = (await countEvents(stores)).rows

  await stores.startPipeline()
  await waitFor(async () => ![owner, undefined, ''].includes(await stores.readOwner()))
  await waitFor(async () => (await countEvents(stores)).rows > before + 2000)
  await paused.kill('SIGCONT')
  await waitFor(async () => (await fetch(`${paused.url}/_health`)).status === 200)
  const sent = await load.stop()
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: sent, uuids: sent, volume: sent, properties: sent })
})

t.test('hands its partitions over at once when it is stopped, and loses nothing', async (t) => {
  const stores = await startStores(t)
  const load = publishSteadily(stores)
  const first = await stores.startPipeline()
  await stores.waitForRange()
  const owner = await stores.readOwner()
  const second = await stores.startPipeline()

  await first.kill('SIGTERM')
  t.equal(first.child.exitCode, 0)
  t.not(await stores.readOwner(), owner, 'nobody waits until what it owned expires')
  await stores.waitForRange()
  await second.kill('SIGTERM')
  const sent = await load.stop()
  await stores.startPipeline()
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: sent, uuids: sent, volume: sent, properties: sent })
})
