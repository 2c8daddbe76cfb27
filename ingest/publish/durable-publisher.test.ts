import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { jetstreamManager } from '@nats-io/jetstream'
import { EVENTS_STREAM, PERSONS_STREAM } from '../../schema/wire/streams.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createLogger } from '../../platform/logger.ts'
import { loadIngestConfig } from '../config.ts'
import { startIngest } from '../start-ingest.ts'
import { type StoredEvent, takePersonsUpdates, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest, type TestIngest } from '../testing/start-test-ingest.ts'
import type { FileLock } from '../../platform/durable-folder.ts'
import { Spool } from '../spool/spool.ts'
import { tryLockFolder } from '../spool/spool-folders.ts'
import { createDurablePublisher } from './durable-publisher.ts'
import { openStreamLink } from './stream-link.ts'

/** So long a request waits for the acknowledgement of the stream. */
const ACK_TIMEOUT_MS = 3000

const silent = createLogger({ component: 'test', level: 'silent' })

const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])

async function send (ingest: TestIngest, event: string): Promise<number> {
  const answer = await ingest.post('/capture/', { api_key: PROJECT_KEY, event, distinct_id: 'u' })
  await answer.text()
  return answer.status
}

const spoolEmpties = async (ingest: TestIngest): Promise<void> => {
  await waitFor(async () => await ingest.metric('millrace_ingest_spool_bytes') === 0)
}

/** The test's own connection reconnects independently, and fails requests before that. */
const connectionIsBack = async ({ connection }: TestIngest): Promise<void> => {
  await waitFor(async () => await connection.flush().then(() => true))
}

t.test('events sent while the stream is unavailable are answered 200 and arrive once, when it is back', async (t) => {
  t.equal(await send(ingest, 'before'), 200)

  await ingest.nats.kill('SIGKILL')
  for (let i = 0; i < 20; i++) t.equal(await send(ingest, `during ${i}`), 200)
  t.ok(await ingest.metric('millrace_ingest_spool_bytes') > 0)
  await ingest.nats.restart()
  await spoolEmpties(ingest)
  t.equal(await send(ingest, 'after'), 200)

  await connectionIsBack(ingest)
  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.equal(stored.length, 22)
  t.equal(new Set(stored.map(({ event }) => event)).size, 22)
})

t.test('a stream that does not answer costs one request its time, later ones are spooled at once', async (t) => {
  await ingest.nats.kill('SIGSTOP')

  t.equal(await send(ingest, 'first'), 200)
  const times: number[] = []
  for (let i = 0; i < 5; i++) {
    const startedAt = performance.now()
    t.equal(await send(ingest, `later ${i}`), 200)
    times.push(performance.now() - startedAt)
  }
  t.ok(Math.min(...times) < ACK_TIMEOUT_MS, 'not each waited for an acknowledgement')

  await ingest.nats.kill('SIGCONT')
  await spoolEmpties(ingest)
  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.same(stored.map(({ event }) => event).sort(), ['first', ...Array.from({ length: 5 }, (_, i) => `later ${i}`)])
})

t.test('a full stream is no loss: events wait in the spool until there is room', async (t) => {
  const manager = await jetstreamManager(ingest.connection)
  await manager.streams.update(EVENTS_STREAM, { max_msgs: 4 })
  t.teardown(async () => await manager.streams.update(EVENTS_STREAM, { max_msgs: -1 }))

  for (let i = 0; i < 10; i++) t.equal(await send(ingest, `e${i}`), 200)

  t.ok(await ingest.metric('millrace_ingest_spool_bytes') > 0)
  const arrived: StoredEvent[] = []
  await waitFor(async () => arrived.push(...await takePublishedEvents(ingest.connection, clickhouse)) >= 10)
  t.same(arrived.map(({ event }) => event).sort(), Array.from({ length: 10 }, (_, i) => `e${i}`))
})

t.test('while only the stream of persons updates is full, events go on to theirs', async (t) => {
  const manager = await jetstreamManager(ingest.connection)
  await manager.streams.update(PERSONS_STREAM, { max_msgs: 1 })
  t.teardown(async () => await manager.streams.update(PERSONS_STREAM, { max_msgs: -1 }))
  const spooled = async (): Promise<number> => await ingest.metric('millrace_ingest_messages_total{outcome="spooled"}')
  const before = await spooled()

  for (let n = 0; n < 5; n++) {
    const answer = await ingest.post('/e', { api_key: PROJECT_KEY, event: 'sets', distinct_id: 'full', $set: { n } })
    t.equal(answer.status, 200)
    t.equal(await send(ingest, `beside ${n}`), 200)
  }

  t.equal(await spooled() - before, 4, 'the updates, and nothing else')
  t.equal((await takePublishedEvents(ingest.connection, clickhouse)).length, 10)
  await manager.streams.update(PERSONS_STREAM, { max_msgs: -1 })
  await spoolEmpties(ingest)
  const updates = await takePersonsUpdates(ingest.connection)
  t.same(updates.map((update) => 'set' in update ? update.set?.n : null), [0, 1, 2, 3, 4], 'in their order')
})

t.test('one refused event does not send the next ones to the spool behind updates that their stream refuses', async (t) => {
  const manager = await jetstreamManager(ingest.connection)
  const limit = async (stream: string, maxMessages: number): Promise<unknown> =>
    await manager.streams.update(stream, { max_msgs: maxMessages })
  t.teardown(async () => { for (const stream of [EVENTS_STREAM, PERSONS_STREAM]) await limit(stream, -1) })
  const spooled = async (): Promise<number> => await ingest.metric('millrace_ingest_messages_total{outcome="spooled"}')
  await limit(PERSONS_STREAM, 1)
  // More than the spool reads at a time.
  for (let n = 0; n < 8; n++) {
    const $set = { n, text: 'x'.repeat(900_000) }
    await ingest.post('/e', { api_key: PROJECT_KEY, event: 'sets', distinct_id: 'stuck', $set })
  }
  await takePublishedEvents(ingest.connection, clickhouse)
  await limit(EVENTS_STREAM, 1)
  t.equal(await send(ingest, 'fills the stream'), 200)
  const before = await spooled()
  t.equal(await send(ingest, 'refused'), 200)
  t.equal(await spooled() - before, 1)

  await limit(EVENTS_STREAM, -1)
  await waitFor(async () => {
    const sent = await spooled()
    await send(ingest, 'next')
    return await spooled() === sent
  })

  t.ok(await ingest.metric('millrace_ingest_spool_bytes') > 0, 'the update still waits')
  await limit(PERSONS_STREAM, -1)
  await spoolEmpties(ingest)
  await takePublishedEvents(ingest.connection, clickhouse)
  await takePersonsUpdates(ingest.connection)
})

t.test('a deleted stream is created again and receives what was spooled', async (t) => {
  await (await jetstreamManager(ingest.connection)).streams.delete(EVENTS_STREAM)

  t.equal(await send(ingest, 'kept'), 200)

  await spoolEmpties(ingest)
  t.same((await takePublishedEvents(ingest.connection, clickhouse)).map(({ event }) => event), ['kept'])
})

t.test('a full spool answers 503 with Retry-After, and takes events again later', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '3000' })
  await ingest.nats.kill('SIGKILL')

  const statuses: number[] = []
  for (let i = 0; i < 10; i++) statuses.push(await send(ingest, `e${i}`))
  t.equal(statuses[0], 200)
  t.equal(statuses.at(-1), 503)
  const refused = await ingest.post('/e', { api_key: PROJECT_KEY, event: 'x', distinct_id: 'u' })
  t.equal(refused.headers.get('retry-after'), '5')
  t.match(await refused.json(), { type: 'server_error', code: 'stream_unavailable', attr: null })
  t.ok(await ingest.metric('millrace_ingest_messages_total{outcome="refused"}') > 0)

  await ingest.nats.restart()
  await waitFor(async () => await send(ingest, 'again') === 200)
})

t.test('what a process left in its spool is published by the next one', async (t) => {
  const ingest = await startTestIngest(t)
  await ingest.nats.kill('SIGKILL')
  t.equal(await send(ingest, 'left behind'), 200)
  await ingest.stop()
  t.same((await readdir(path.join(ingest.dataDir, 'spool', '0'))).filter((name) => name.endsWith('.segment')).length, 1)

  await ingest.nats.restart()
  const successor = await startIngest(loadIngestConfig({
    NATS_URL: ingest.nats.url, DATABASE_URL: ingest.postgres.url, MILLRACE_PORT: '0', MILLRACE_DATA_DIR: ingest.dataDir
  }), createLogger({ component: 'ingest', level: 'silent' }))
  t.teardown(async () => { for (const step of successor.shutdownSteps) await step.run() })

  await waitFor(async () => (await takePublishedEvents(ingest.connection, clickhouse)).length === 1)
})

t.test('persons updates keep their order through an outage', async (t) => {
  const set = async (n: number): Promise<void> => {
    await ingest.post('/e', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'u', $set: { n } })
  }

  for (let n = 0; n < 5; n++) await set(n)
  await ingest.nats.kill('SIGKILL')
  for (let n = 5; n < 10; n++) await set(n)
  await ingest.nats.restart()
  for (let n = 10; n < 15; n++) await set(n)
  await spoolEmpties(ingest)

  await connectionIsBack(ingest)
  const updates = await takePersonsUpdates(ingest.connection)
  t.same(updates.map((update) => 'set' in update ? update.set?.n : null), Array.from({ length: 15 }, (_, n) => n))
})

t.test('/_health names the stream and the spool from the first refused event until one is taken', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '1' })
  const health = async (): Promise<unknown> => {
    const response = await fetch(`${ingest.url}/_health`)
    return [response.status, (await response.json() as { stuck: string[] }).stuck]
  }
  const send = async (): Promise<number> =>
    (await ingest.post('/capture/', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })).status
  t.equal(await send(), 200)
  t.same(await health(), [200, []])

  // Connected all the time, as a nats-server whose disk is full.
  await ingest.nats.kill('SIGSTOP')
  t.equal(await send(), 503)
  t.same(await health(), [503, ['nats', 'spool']])

  await ingest.nats.kill('SIGCONT')
  await waitFor(async () => await send() === 200)
  t.same(await health(), [200, []])
})

t.test('a message that the server finds too large is kept in a file, and others go on to the stream', async (t) => {
  const link = openStreamLink({
    // The large one is on its way for seconds on a slow machine.
    url: ingest.nats.url, ackTimeoutMs: 60_000, logger: silent,
    limits: { replicas: 1, eventsMaxBytes: 1e9, deadLetterMaxBytes: 1e8 }
  })
  await link.opened
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-test-spool-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const spool = await Spool.open({ folder, lock: tryLockFolder(folder) as FileLock, maxBytes: 1e9, logger: silent })
  const counts: Parameters<typeof createDurablePublisher>[1] = {
    published: 0, spooled: 0, drained: 0, refused: 0, inFlightBytes: 0, observeAckMs: () => {}
  }
  const publisher = createDurablePublisher({ link, spool, logger: silent }, counts)
  t.teardown(async () => { await publisher.close(); await spool.close(); await link.close() })
  const send = async (id: string, bytes: number): Promise<void> =>
    await publisher.publishEvents({ subject: 'events.live.0', id, headers: {}, payload: Buffer.alloc(bytes) })

  const large = send('large', 40_000_000)
  await Promise.all([large, send('beside', 10)])
  await send('after', 10)

  t.match(counts, { published: 2, spooled: 1, refused: 0 })
  t.equal(publisher.failures.stream, null)
  await waitFor(() => spool.isEmpty)
  t.same((await readdir(folder)).filter((name) => name.startsWith('refused')), ['refused-large.record'])
  t.ok(spool.refusedBytes > 40_000_000)
})
