import t from 'tap'
import { jetstreamManager } from '@nats-io/jetstream'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { ANNOUNCED_KEY, type IngestPresence, presenceKey } from '../../schema/ingest-presence.ts'
import { EVENTS_STREAM } from '../../schema/streams.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { startTestStores } from '../testing/start-test-partition.ts'
import { describeWatermark, keepWatermark, openIngestBucket } from './keep-watermark.ts'

const { connection, clickhouse: { client: clickhouse } } = await startTestStores(t)
const bucket = await openIngestBucket(connection, { replicas: 1 })
const manager = await jetstreamManager(connection)
const START = Date.now()

/** What an ingest process says. */
async function say (folder: string, publishedThrough: number, more: Partial<IngestPresence> = {}): Promise<void> {
  const entry: IngestPresence = {
    processId: folder, host: 'host', pid: 1, version: '1.2.3', folder: '/spool/0', since: START, at: START,
    publishedThrough, inFlight: 0, spoolBytes: 0, spooledSince: null, ...more
  }
  await bucket.put(presenceKey(folder), JSON.stringify(entry))
}

interface Row { project_id: number, through: number, held_by: string }

async function read (): Promise<Row[]> {
  const result = await clickhouse.query({
    query: 'SELECT project_id, toInt64(toUnixTimestamp64Milli(complete_through)) AS through, held_by FROM watermarks ORDER BY project_id',
    format: 'JSONEachRow'
  })
  const rows = await result.json<Row>()
  return rows.map((row) => ({ ...row, through: Number(row.through) }))
}

const isAt = async (through: number): Promise<boolean> => (await read())[0]?.through === through

/** Waits until the keeper has seen what was said last: it announces the least of all entries. */
const isAnnounced = async (through: number): Promise<void> => {
  await waitFor(async () => (await bucket.get(ANNOUNCED_KEY))?.string() === String(through))
}

function keep (isLeader = () => true) {
  const keeper = keepWatermark({
    connection, clickhouse, bucket, isLeader, metrics: createMetrics('pipeline'),
    logger: createLogger({ component: 'test', level: 'silent' })
  })
  t.teardown(async () => await keeper.stop())
  return keeper
}

const keeper = keep()

/** What the writer of a partition does: the stream forgets what it acknowledged. */
const store = async (sequence: number): Promise<unknown> => await manager.streams.deleteMessage(EVENTS_STREAM, sequence)

t.test('nothing is known without ingest', async (t) => {
  t.same(await read(), [])
  t.match(keeper.parts(), [{ name: 'watermark', completeThrough: null }])
})

t.test('a moment is written when all ingest processes passed it and the stream has stored its messages', async (t) => {
  await publishEvents(connection, makeEvents(1))
  const { state: { last_seq: sequence } } = await manager.streams.info(EVENTS_STREAM)
  await say('a', START + 2000)
  await say('b', START + 1000)
  await isAnnounced(START + 1000)
  t.same(await read(), [], 'a message is still in the stream')
  await store(sequence)
  await waitFor(async () => await isAt(START + 1000))
})

t.test('every project with events has a row, and all of them have the same moment', async (t) => {
  await clickhouse.insert({
    table: 'events', values: [{ project_id: 7, event: 'e', distinct_id: 'd', timestamp: '2026-01-02 03:04:05' }], format: 'JSONEachRow'
  })
  t.same((await read()).map(({ project_id: id, through }) => [id, through]), [[0, START + 1000], [7, START + 1000]])
})

t.test('it stands still for a process that is not heard of, and says for which', async (t) => {
  await say('b', START + 1001, { spoolBytes: 77 })
  await say('a', START + 90_000)
  await isAnnounced(START + 1001)
  await waitFor(async () => await isAt(START + 1001))
  t.match(keeper.parts(), [{ healthy: true, completeThrough: new Date(START + 1001).toISOString() }])
})

t.test('what it waits for has a name', async (t) => {
  const presence = JSON.parse((await bucket.get(presenceKey('b')))!.string()) as IngestPresence
  type More = Partial<IngestPresence>
  const describe = (now: number, more: More, through: number | null = START): object => describeWatermark(
    through, { life: '', first: 5, last: 9 },
    { now: () => now, oldest: { key: presenceKey('b'), presence: { ...presence, ...more }, storedAt: START + 20_000 } })
  t.match(describe(START + 1000, {}), { heldBy: '', isStuck: false, lagMs: 1000 })
  t.match(describe(START + 21_000, { publishedThrough: START + 20_900 }), {
    heldBy: 'stream EVENTS: 5 messages at most wait to be stored'
  })
  t.match(describe(START + 21_000, {}), { heldBy: /^ingest b on host \(\/spool\/0\): 77 bytes wait in its spool/, isStuck: false })
  t.match(describe(START + 21_000, { spoolBytes: 0, inFlight: 3 }), { heldBy: /3 requests and messages are in flight/ })
  t.match(describe(START + 21_000, { spoolBytes: 0, publishedThrough: 0 }, null), { heldBy: /just started/ })
  t.match(describe(START + 31_000, {}), { heldBy: /not heard of since .* 77 bytes .*npx millrace watermark forget/, isStuck: true })
})

t.test('it goes on when the entry is removed, and an entry that vanished otherwise still counts', async (t) => {
  await bucket.delete(presenceKey('b'))
  await waitFor(async () => await isAt(START + 90_000))
  await say('c', START + 91_000)
  await say('a', START + 92_000)
  await waitFor(async () => await isAt(START + 91_000))
  // As a bucket that was made anew: no sign of a removal.
  const { state } = await manager.streams.info('KV_millrace_ingest', { subjects_filter: '>' })
  t.ok(Object.keys(state.subjects ?? {}).some((subject) => subject.endsWith('spool.c')))
  await manager.streams.purge('KV_millrace_ingest', { filter: '$KV.millrace_ingest.spool.c' })
  await say('a', START + 93_000)
  await waitFor(async () => await bucket.get(presenceKey('c')) === null)
  await say('d', START + 91_500)
  await say('c', START + 91_400)
  await waitFor(async () => await isAt(START + 91_400))
})

t.test('of two processes that keep it, none passes or takes back what the other found', async (t) => {
  const second = keep()
  for (const step of [0, 1, 2, 3]) {
    for (const folder of ['a', 'c', 'd']) await say(folder, START + 100_000 + step)
    await waitFor(async () => await isAt(START + 100_000 + step))
  }
  await second.stop()
})

t.test('a process that does not keep it says and writes nothing', async (t) => {
  await keeper.stop()
  const idle = keep(() => false)
  t.same(idle.parts(), [])
  await idle.stop()
})
