import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { jetstreamManager } from '@nats-io/jetstream'
import type { KV } from '@nats-io/kv'
import type { HealthPart, HealthReport } from '../../platform/health-and-readiness.ts'
import { createLogger } from '../../platform/logger.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import {
  ANNOUNCED_KEY, ASK_SUBJECT, INGEST_BUCKET, type IngestPosition, type IngestPresence, presenceKey
} from '../../schema/wire/ingest-presence.ts'
import { EVENTS_STREAM, HEADER } from '../../schema/wire/streams.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { loadIngestConfig } from '../config.ts'
import { readRegistration, spoolFolderId, writeRegistration } from './spool-registration.ts'
import { type Ingest, startIngest } from '../start-ingest.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const ingest = await startTestIngest(t)
const bucket = await openBucket(ingest.connection, INGEST_BUCKET, { replicas: 1 })
const own = path.join(ingest.dataDir, 'spool', '0')
const logger = createLogger({ component: 'ingest', level: 'silent' })
const warnings: string[] = []
logger.warn = (_facts: unknown, text?: string) => { warnings.push(text ?? '') }

async function readEntry (from: KV, folder: string): Promise<IngestPresence | null> {
  const entry = await from.get(presenceKey(await spoolFolderId(folder)))
  return entry?.operation === 'PUT' ? entry.json<IngestPresence>() : null
}

/** Asks as the pipeline does; answers who answered first. */
async function ask (): Promise<IngestPosition> {
  return (await ingest.connection.request(ASK_SUBJECT, undefined, { timeout: 60_000 })).json<IngestPosition>()
}

async function sendTo ({ port }: Pick<Ingest, 'port'>): Promise<number> {
  const body = JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
  const response = await fetch(`http://127.0.0.1:${port}/capture/`, { method: 'POST', body })
  await response.text()
  return response.status
}

async function askReadiness ({ port }: Pick<Ingest, 'port'>): Promise<{ code: number, status: string, checks: object }> {
  const response = await fetch(`http://127.0.0.1:${port}/_readiness`)
  return { code: response.status, ...await response.json() as { status: string, checks: object } }
}

/** What a process says of NATS. */
async function askHealth ({ port }: Pick<Ingest, 'port'>): Promise<HealthPart> {
  const { parts } = await (await fetch(`http://127.0.0.1:${port}/_health`)).json() as HealthReport
  return parts.find(({ name }) => name === 'nats')!
}

/** Another process with the same data directory. */
async function startSecond (): Promise<Ingest & { stop: () => Promise<void> }> {
  const second = await startIngest(loadIngestConfig({
    NATS_URL: ingest.nats.url, DATABASE_URL: ingest.postgres.url, MILLRACE_PORT: '0', MILLRACE_DATA_DIR: ingest.dataDir
  }), logger)
  return { ...second, stop: async () => { for (const step of second.shutdownSteps) await step.run() } }
}

t.test('a process has an entry before it answers, and the entry follows the clock', async (t) => {
  const first = await readEntry(bucket, own)
  t.match(first, { processId: /^[0-9a-f]{12}$/, pid: process.pid, folder: own, spoolBytes: 0, spooledSince: null })
  t.equal(await sendTo(ingest.ingest), 200)
  await waitFor(async () => (await readEntry(bucket, own))!.publishedThrough > first!.at)
})

t.test('a process that is asked says where it is now', async (t) => {
  const askedAt = Date.now()
  const first = await ask()
  const entry = await readEntry(bucket, own)
  t.match(first, { folderId: await spoolFolderId(own), processId: entry!.processId, inFlight: 0, spoolBytes: 0 })
  t.ok(first.publishedThrough > askedAt - 2000 && first.publishedThrough <= Date.now())
  await waitFor(async () => (await ask()).publishedThrough > first.publishedThrough)
})

t.test('the entry is written seldom while nothing waits', async (t) => {
  const countEntries = async (): Promise<number> => (await manager.streams.info(`KV_${INGEST_BUCKET}`)).state.last_seq
  const manager = await jetstreamManager(ingest.connection)
  const before = await countEntries()
  const startedAt = performance.now()
  await waitFor(async () => await countEntries() >= before + 2)
  t.ok(performance.now() - startedAt > 3000)
})

t.test('the entry stands still while the spool has something, and goes on when it is drained', async (t) => {
  await ingest.nats.kill('SIGKILL')
  t.equal(await sendTo(ingest.ingest), 200)
  const sentBefore = Date.now()
  await ingest.nats.restart()
  await waitFor(async () => await ingest.connection.flush().then(() => true))
  await waitFor(async () => (await readEntry(bucket, own))!.publishedThrough > sentBefore)
  t.match(await readEntry(bucket, own), { spoolBytes: 0 })
})

t.test('an orderly stop removes the entry', async (t) => {
  const second = await startSecond()
  const folder = path.join(ingest.dataDir, 'spool', '1')
  t.ok(await readEntry(bucket, folder))
  t.equal(await readRegistration(folder), 'registered')
  await second.stop()
  t.equal(await readEntry(bucket, folder), null)
  t.equal(await readRegistration(folder), 'unregistered')
})

t.test('the next process of a folder continues the entry of a killed one', async (t) => {
  const folder = path.join(ingest.dataDir, 'spool', '1')
  const key = presenceKey(await spoolFolderId(folder))
  const future = Date.now() + 60_000
  await writeRegistration(folder, 'registered')
  await bucket.put(key, JSON.stringify({ ...await readEntry(bucket, own), processId: 'killed', publishedThrough: future }))
  const second = await startSecond()
  t.match(await readEntry(bucket, folder), { publishedThrough: future, processId: /^(?!killed)/ }, 'it never goes back')
  await second.stop()
  t.equal(await readEntry(bucket, folder), null)
})

t.test('a process waits for its clock to pass what was announced a moment ahead', async (t) => {
  const announced = Date.now() + 1400
  await bucket.put(ANNOUNCED_KEY, String(announced))
  const second = await startSecond()
  t.ok(Date.now() >= announced)
  await second.stop()
  await bucket.delete(ANNOUNCED_KEY)
})

t.test('nothing is received before the moment that the pipeline announced', async (t) => {
  const announced = Date.now() + 30_000
  await bucket.put(ANNOUNCED_KEY, String(announced))
  const second = await startSecond()
  t.equal(await sendTo(second), 200)
  const { header } = await jetstreamManager(ingest.connection)
    .then(async (manager) => await manager.streams.getMessage(EVENTS_STREAM, { last_by_subj: 'events.live.*' })) ?? {}
  t.ok(Number(header?.get(HEADER.received)) >= announced)
  await second.stop()
  await bucket.delete(ANNOUNCED_KEY)
})

t.test('the entry of a killed process with an empty spool is removed by a neighbour', async (t) => {
  const folder = path.join(ingest.dataDir, 'spool', '2')
  await mkdir(folder)
  const key = presenceKey(await spoolFolderId(folder))
  await bucket.put(key, JSON.stringify({ ...await readEntry(bucket, own), publishedThrough: 1 }))
  await writeRegistration(folder, 'registered')
  const second = await startSecond()
  await waitFor(async () => await readRegistration(folder) === 'unregistered')
  t.equal(await readEntry(bucket, folder), null)
  await second.stop()
})

t.test('a process that never reached NATS takes no events, unless the entry of its folder is there', async (t) => {
  const folder = path.join(ingest.dataDir, 'spool', '1')
  await ingest.nats.kill('SIGKILL')
  const fresh = await startSecond()
  t.equal(await sendTo(fresh), 503)
  t.match(await askReadiness(fresh), { code: 503, status: 'starting' }, 'a balancer sends nothing to it')
  await fresh.stop()
  await writeRegistration(folder, 'registered')
  const successor = await startSecond()
  t.equal(await sendTo(successor), 200)
  t.match(await askReadiness(successor), { code: 200, status: 'degraded', checks: { nats: 'unavailable' } })
  await successor.stop()
  t.equal(await readRegistration(folder), 'registered', 'what it left is in the spool')
  await ingest.nats.restart()
  const last = await startSecond()
  // By that process, or by the first one, which takes over folders that nobody has at the moment.
  await waitFor(async () => await readRegistration(folder) === 'unregistered' || (await readEntry(bucket, folder))?.spoolBytes === 0)
  await last.stop()
  t.equal(await readRegistration(folder), 'unregistered')
})

t.test('a process that is started before NATS is ready as soon as it has its entry, and stays ready', async (t) => {
  await ingest.nats.stop()
  const early = await startSecond()
  t.match(await askReadiness(early), { code: 503, status: 'starting' })
  t.match(await askHealth(early), { healthy: false })

  await ingest.nats.restart()
  // The order counts: a process that says it is ready takes events.
  await waitFor(async () => (await askReadiness(early)).code === 200)
  t.equal(await sendTo(early), 200)
  await waitFor(async () => (await askHealth(early)).healthy)

  await ingest.nats.stop()
  await waitFor(async () => !(await askHealth(early)).healthy)
  t.match(await askReadiness(early), { code: 200, status: 'degraded' })
  await ingest.nats.restart()
  await waitFor(async () => (await askHealth(early)).healthy)
  await early.stop()
})

t.test('a start that reached NATS listens only when it has its entry', async (t) => {
  // A bucket without room takes no entry, as that of a NATS that is too busy to answer in time.
  const manager = await jetstreamManager(ingest.connection)
  const config = (await manager.streams.info(`KV_${INGEST_BUCKET}`)).config
  await manager.streams.update(config.name, { ...config, max_bytes: 1 })
  const starting = startSecond()
  await waitFor(() => warnings.some((text) => text.startsWith('this process cannot write its entry')))
  t.equal(await Promise.race([starting.then(() => 'listens'), delay(1000, 'waits')]), 'waits')
  await manager.streams.update(config.name, { ...config, max_bytes: -1 })

  const second = await starting
  t.match(await askReadiness(second), { code: 200 })
  await second.stop()
})
