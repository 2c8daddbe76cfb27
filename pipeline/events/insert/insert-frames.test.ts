import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import t from 'tap'
import { encodeFrame } from '../../../schema/wire/frame-codec.ts'
import { createTestClickHouse, stopMerges } from '../../../test/support/test-stores.ts'
import { buildEventBlock } from '../../../test/support/event-block.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { createPipelineMetrics } from '../../pipeline-metrics.ts'
import { makeEvents, publishEvents } from '../../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, waitUntilStored } from '../../testing/start-test-partition.ts'
import {
  createClickHouseAgent, createInsertFrames, INSERT_SETTINGS, INSERT_SETTINGS_VERSION, type InsertError,
  type InsertFrames
} from './insert-frames.ts'
import { joinFrames } from './join-frames.ts'

const settings = INSERT_SETTINGS[INSERT_SETTINGS_VERSION]!
const MONTH_MS = 31 * 86_400_000

interface Target {
  insertFrames: InsertFrames
  /** Rows by the table and by both views. */
  count: () => Promise<number[]>
}

async function createTarget (t: TestContext): Promise<Target> {
  const { url, client } = await createTestClickHouse(t)
  // Merges drop equal rows and would hide a second copy.
  await stopMerges(t, client, ['events', 'event_volumes_by_day', 'event_property_counts'])
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  return {
    insertFrames: createInsertFrames({ url, agent }),
    count: async () => {
      const result = await client.query({
        query: `SELECT (SELECT count() FROM events), (SELECT sum(volume) FROM event_volumes),
          (SELECT sum(count) FROM event_properties WHERE property = 'plan')`,
        format: 'JSONCompactEachRow'
      })
      return (await result.json<string[]>())[0]!.map(Number)
    }
  }
}

/** Frames of `rows` events over three months. */
async function encodeFrames (rows: number, frames: number): Promise<Uint8Array[]> {
  return await Promise.all(Array.from({ length: frames }, async () => {
    const events = makeEvents(rows / frames, (i) => ({ timestamp: Date.now() - (i % 3) * MONTH_MS }))
    return await encodeFrame(buildEventBlock(events))
  }))
}

for (const [rows, frames] of [[1, 1], [3, 1], [3, 3], [20_000, 100]] as const) {
  t.test(`stores ${rows} rows in ${frames} frames once, in the table and in its views`, async (t) => {
    const { insertFrames, count } = await createTarget(t)
    const insert = { frames: await encodeFrames(rows, frames), token: 'life:live.0:1-9', settings }

    for (let i = 0; i < 3; i++) await insertFrames(insert)
    t.same(await count(), [rows, rows, rows])
    await insertFrames({ ...insert, token: 'life:live.0:10-18' })

    t.same(await count(), [2 * rows, 2 * rows, 2 * rows], 'another token is another insert')
  })
}

t.test('stores the same batch range once when two owners insert it at the same time', async (t) => {
  const { insertFrames, count } = await createTarget(t)
  const rows = 5000

  for (let i = 1; i <= 5; i++) {
    const insert = { frames: await encodeFrames(rows, 10), token: `life:live.0:${i}-${i}`, settings }
    await Promise.all([insertFrames(insert), insertFrames(insert), insertFrames(insert)])
  }

  t.same(await count(), [5 * rows, 5 * rows, 5 * rows])
})

t.test('ClickHouse takes the same rows in other blocks for another insert, so a version of the settings fixes the blocks', async (t) => {
  const { insertFrames, count } = await createTarget(t)
  const frames = await encodeFrames(1000, 10)
  const insert = { token: 'life:live.0:1-10', settings }

  await insertFrames({ ...insert, frames })
  await insertFrames({ ...insert, frames: await joinFrames(frames) })

  t.same(await count(), [2000, 2000, 2000])
})

t.test('reports the code of ClickHouse, and 0 when no answer comes', async (t) => {
  const { insertFrames } = await createTarget(t)
  const frames = await encodeFrames(1, 1)
  const codeOf = async (insert: Promise<void>): Promise<number> =>
    await insert.then(() => -1, (error: InsertError) => error.clickhouseCode)
  t.equal(await codeOf(insertFrames({ frames: [Buffer.from('garbage')], token: 'x', settings })), 561)
  t.equal(await codeOf(insertFrames({ frames, token: 'x', settings: { no_such_setting: '1' } })), 115)

  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  for (const half of ['HTTP/1.1 200 OK\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf']) {
    const url = await startServer(t, (socket) => socket.write(half))
    const mute = createInsertFrames({ url, agent, timeoutMs: 200 })
    t.equal(await codeOf(mute({ frames, token: 'x', settings })), 0)
  }
  const url = await startServer(t, (socket) => socket.end('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n'))
  t.equal(await codeOf(createInsertFrames({ url, agent })({ frames, token: 'x', settings })), 0)
})

/** A server that answers every request in its own way. */
async function startServer (t: TestContext, answer: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => socket.once('data', () => answer(socket)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as { port: number }).port}/x`
}

/** Above the 100 partitions that ClickHouse lets an insert touch by default. */
const MONTHS = 120

t.test('events of more months than ClickHouse lets an insert touch are one insert, which is not refused', async (t) => {
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
