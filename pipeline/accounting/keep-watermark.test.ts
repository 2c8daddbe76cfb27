import t from 'tap'
import { jetstreamManager } from '@nats-io/jetstream'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import {
  ANNOUNCE_AHEAD_MS, ANNOUNCED_KEY, ASK_SUBJECT, INGEST_BUCKET, type IngestPosition, type IngestPresence, presenceKey
} from '../../schema/wire/ingest-presence.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { startTestStores } from '../testing/start-test-partition.ts'
import { type WatermarkDeps, WatermarkKeeper } from './keep-watermark.ts'

const { connection, clickhouse: { client: clickhouse } } = await startTestStores(t)
const bucket = await openBucket(connection, INGEST_BUCKET, { replicas: 1 })
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

/** Waits until the keeper has seen what was said last: it announces a little more than the least of all entries. */
const isAnnounced = async (through: number): Promise<void> => {
  await waitFor(async () => Number((await bucket.get(ANNOUNCED_KEY))?.string()) >= through + ANNOUNCE_AHEAD_MS)
}

function keep (leads: () => boolean | null = () => true, more: Partial<WatermarkDeps> = {}) {
  const keeper = new WatermarkKeeper({
    connection, clickhouse, bucket, leads, metrics: createMetrics('pipeline'),
    logger: createLogger({ component: 'test', level: 'silent' }), ...more
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

t.test('it stands still for a process that says no more', async (t) => {
  await say('b', START + 1001, { spoolBytes: 77 })
  await say('a', START + 90_000)
  await waitFor(async () => await isAt(START + 1001))
  // The keeper goes on when ClickHouse has answered, and the row can be read before.
  await waitFor(() => keeper.parts()[0]?.completeThrough === new Date(START + 1001).toISOString())
  t.match(keeper.parts(), [{ healthy: true, completeThrough: new Date(START + 1001).toISOString() }])
})

t.test('it goes on when the entry is removed, and an entry that vanished otherwise still counts', async (t) => {
  await bucket.delete(presenceKey('b'))
  await waitFor(async () => await isAt(START + 90_000))
  await say('c', START + 91_000)
  await say('a', START + 92_000)
  await waitFor(async () => await isAt(START + 91_000))
  // As a bucket that was re-created: no sign of a removal.
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

t.test('an answer moves it without an entry, unless another process has taken the folder', async (t) => {
  for (const folder of ['c', 'd']) await bucket.delete(presenceKey(folder))
  const position: IngestPosition = {
    folderId: 'a', processId: 'a', publishedThrough: START + 200_000, inFlight: 0, spoolBytes: 0
  }
  const answering = connection.subscribe(ASK_SUBJECT, {
    callback (_, ask) {
      ask.respond(JSON.stringify(position))
      ask.respond(JSON.stringify({ ...position, processId: 'killed', publishedThrough: START + 9e6 }))
    }
  })
  await waitFor(async () => await isAt(START + 200_000))
  position.publishedThrough = START + 200_100
  await waitFor(async () => await isAt(START + 200_100))
  t.same(JSON.parse((await bucket.get(presenceKey('a')))!.string()).publishedThrough, START + 100_003)
  answering.unsubscribe()
})

t.test('a keeper that takes over continues what the table says', async (t) => {
  await keeper.stop()
  await say('a', START + 150_000)
  const next = keep()
  await waitFor(() => next.parts()[0]?.completeThrough === new Date(START + 200_100).toISOString())
  await say('a', START + 200_200)
  await waitFor(async () => await isAt(START + 200_200))
  await next.stop()
})

t.test('one that cannot know whether it still keeps it takes nothing back', async (t) => {
  let leads: boolean | null = true
  const next = keep(() => leads)
  await waitFor(() => next.parts()[0]?.completeThrough === new Date(START + 200_200).toISOString())
  leads = null
  // Few rows are kept: repeated often enough, what it had reached itself would be all that readers see.
  await clickhouse.command({
    query: `INSERT INTO watermark_reached SELECT 0, fromUnixTimestamp64Milli(${START + 205_000}), (now64(3), 'of another process')`
  })
  await waitFor(() => next.parts()[0]?.completeThrough === new Date(START + 205_000).toISOString())
  await next.stop()
  t.equal((await read())[0]?.through, START + 205_000)
})

t.test('one that keeps it beside another that went further takes nothing back', async (t) => {
  const write = async (through: number, rows: number): Promise<void> => {
    for (let row = 0; row < rows; row++) {
      await clickhouse.command({
        query: `INSERT INTO watermark_reached SELECT 0, fromUnixTimestamp64Milli(${through}), (now64(3), 'of another process')`
      })
    }
  }
  const next = keep()
  await waitFor(() => next.parts()[0]?.completeThrough === new Date(START + 205_000).toISOString())
  await write(START + 206_000, 1)
  for (const through of [START + 205_400, START + 205_500]) {
    await say('a', through)
    await waitFor(() => next.parts()[0]?.completeThrough === new Date(through).toISOString())
  }
  await next.stop()
  // 64 rows are kept: that of the other process is gone, the last one of the keeper is there.
  await write(START + 205_000, 62)

  t.equal((await read())[0]?.through, START + 206_000)
})

t.test('a moment is written once the stream has forgotten what came before it', async (t) => {
  await publishEvents(connection, makeEvents(1))
  const { state: { last_seq: sequence } } = await manager.streams.info(EVENTS_STREAM)
  const next = keep()
  await say('a', START + 210_000)
  await isAnnounced(START + 210_000)
  t.not(next.parts()[0]?.completeThrough, new Date(START + 210_000).toISOString())
  await store(sequence)
  await waitFor(() => next.parts()[0]?.completeThrough === new Date(START + 210_000).toISOString())
  await next.stop()
})

t.test('a table that lost its rows, as in a restart, is written again', async (t) => {
  const next = keep()
  await waitFor(() => next.parts()[0]?.completeThrough === new Date(START + 210_000).toISOString())
  // It may be written again before anybody could see the empty table.
  await clickhouse.command({ query: 'TRUNCATE TABLE watermark_reached' })
  await waitFor(async () => await isAt(START + 210_000))
  await next.stop()
})

t.test('a process that finds the table empty takes nothing back that another one said', async (t) => {
  await clickhouse.command({ query: 'TRUNCATE TABLE watermark_reached' })
  // What it was when its process wrote it, some seconds before its last answer.
  await say('a', START + 208_000, { processId: 'killed' })
  const next = keep()
  await waitFor(() => next.parts().length > 0)
  const seen: (number | undefined)[] = []
  for (let look = 0; look < 10; look++) {
    seen.push((await read())[0]?.through)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.same(new Set(seen), new Set([undefined]))
  await say('a', START + 220_000)
  await waitFor(async () => await isAt(START + 220_000))
  await next.stop()
})

t.test('a process that stood still takes nothing back that another one said meanwhile', async (t) => {
  // Each pause between two rounds counts as standing still.
  const next = keep(() => true, { deadAfterMs: 0 })
  await say('a', START + 230_000)
  await waitFor(async () => await isAt(START + 230_000))
  // As if another process had kept it, and ClickHouse were started again.
  await bucket.put(ANNOUNCED_KEY, String(START + 240_000))
  await clickhouse.command({ query: 'TRUNCATE TABLE watermark_reached' })
  const seen: (number | undefined)[] = []
  // Longer than the interval of rows while it stands still.
  for (let look = 0; look < 40; look++) {
    seen.push((await read())[0]?.through)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.same(new Set(seen), new Set([undefined]))
  await say('a', START + 250_000)
  await waitFor(async () => await isAt(START + 250_000))
  await next.stop()
})

t.test('what was said before is given up when ingest does not come back', async (t) => {
  await clickhouse.command({ query: 'TRUNCATE TABLE watermark_reached' })
  await say('a', START + 209_000, { processId: 'killed' })
  const next = keep(() => true, { recallMs: 500 })
  await waitFor(async () => await isAt(START + 209_000))
  await next.stop()
})

t.test('when every ingest process has stopped in order, it goes on with the clock of NATS', async (t) => {
  // Before anybody keeps it: what `a` said is a moment that is still to come.
  await bucket.delete(presenceKey('a'))
  await clickhouse.command({ query: 'TRUNCATE TABLE watermark_reached' })
  const next = keep(() => true, { recallMs: 0 })
  await waitFor(async () => ((await read())[0]?.through ?? 0) > START)
  t.ok((await read())[0]!.through <= Date.now())
  await next.stop()
})

t.test('a row that is not renewed says that the pipeline does not report', async (t) => {
  const write = async (updated: string): Promise<void> => {
    await clickhouse.command({ query: 'TRUNCATE TABLE watermark_reached' })
    await clickhouse.command({ query: `INSERT INTO watermark_reached SELECT 0, now64(3), (${updated}, 'stream EVENTS')` })
  }
  await waitFor(async () => {
    // A row of a keeper that was just stopped may come after the table was emptied.
    await write('now64(3) - INTERVAL 8 SECOND')
    return (await read())[0]?.held_by === 'stream EVENTS'
  })
  await write('now64(3) - INTERVAL 11 SECOND')
  t.match((await read())[0]?.held_by, /^pipeline: does not report since \d{4}-\d\d-\d\d [\d:.]+ UTC$/)
})

t.test('few rows are kept, and the highest of the last ones holds', async (t) => {
  for (let second = 0; second < 100; second++) {
    const through = `toDateTime64(1800000000 + ${second}, 3)`
    await clickhouse.command({ query: `INSERT INTO watermark_reached SELECT 0, ${through}, (now64(3), '')` })
  }
  const kept = await clickhouse.query({ query: 'SELECT 1 FROM watermark_reached', format: 'JSONEachRow' })
  t.ok((await kept.json()).length <= 64)
  t.equal((await read())[0]?.through, 1_800_000_099_000)
})

t.test('a process that does not keep it says and writes nothing', async (t) => {
  const idle = keep(() => false)
  t.same(idle.parts(), [])
  await idle.stop()
})
