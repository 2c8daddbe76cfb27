import { randomBytes } from 'node:crypto'
import { type ListenOptions } from 'node:net'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type FastifyInstance, type FastifyListenOptions } from 'fastify'
import { connectPostgres } from '../platform/connect-postgres.ts'
import { listenPostgres } from '../platform/listen-postgres.ts'
import { type Logger } from '../platform/logger.ts'
import { createMetrics } from '../platform/metrics.ts'
import { type ShutdownStep } from '../platform/on-shutdown.ts'
import { buildIngestApp } from './app.ts'
import { createCapture } from './capture.ts'
import { type IngestConfig } from './config.ts'
import { createIngestCounts } from './ingest-counts.ts'
import { createKeyDirectory } from './keys/key-directory.ts'
import { createLoadKeys } from './keys/load-keys.ts'
import { BodyBudget } from './large/body-budget.ts'
import { createCaptureLarge } from './large/capture-large.ts'
import { createLargeBodyPool } from './large/large-body-pool.ts'
import { createDescribeProperties } from './normalise/describe-properties.ts'
import { createNormaliseEvent } from './normalise/normalise-event.ts'
import { createDurablePublisher } from './publish/durable-publisher.ts'
import { createEventLanes } from './publish/event-lanes.ts'
import { createPeopleLanes } from './publish/people-lanes.ts'
import { createPublishFrames } from './publish/publish-frames.ts'
import { createPublishCounts } from './publish/publish-counts.ts'
import { openStreamLink } from './publish/stream-link.ts'
import { adoptSpools } from './spool/adopt-spools.ts'
import { openOwnSpool } from './spool/open-spools.ts'
import { createTakeEvent } from './take-event.ts'

/** A running ingest tier. */
export interface Ingest {
  app: FastifyInstance
  /** Where it listens; the real port when 0 was asked for. */
  port: number
  /** What to do to end it, in the order of the data flow. */
  shutdownSteps: ShutdownStep[]
}

/** A stream that did not acknowledge by then is taken for away. SDKs give a request up after 10 s. */
const ACK_TIMEOUT_MS = 3000

/** How long the start waits for the stream. */
const STREAM_WAIT_MS = 2000

/** Six of the largest bodies are in memory at a time; others wait, some seconds. */
const LARGE_BODIES = { maxBytes: 120_000_000, maxWaiting: 64, maxWaitMs: 30_000 }

/** One core stays for the event loop; more than two threads would only take memory from everything else. */
function largeBodyThreads (): number {
  return Math.min(Math.max(availableParallelism() - 1, 1), 2)
}

/** Composes the tier and starts listening. */
export async function startIngest (config: IngestConfig, logger: Logger): Promise<Ingest> {
  const metrics = createMetrics('ingest')
  const counts = createIngestCounts(metrics)
  const now = Date.now

  const sql = connectPostgres({ url: config.databaseUrl, max: 2, logger })
  const keys = createKeyDirectory({ loadKeys: createLoadKeys(sql), logger, now })
  const listener = listenPostgres({
    url: config.databaseUrl,
    channel: 'millrace_keys',
    onChange: () => { keys.refresh().catch((err: unknown) => logger.warn({ err }, 'keys could not be read')) },
    logger
  })

  const processId = randomBytes(6).toString('hex')
  let messages = 0
  const nextMessageId = (): string => `${processId}-${(messages++).toString(36)}`
  const link = openStreamLink({ url: config.natsUrl, limits: config.streams, ackTimeoutMs: ACK_TIMEOUT_MS, logger })
  // With a stream that is away the tier starts all the same, and spools.
  await Promise.race([link.opened, delay(STREAM_WAIT_MS)])
  const spools = { root: path.join(config.spool.dataDir, 'spool'), maxBytes: config.spool.maxBytes, logger }
  const spool = await openOwnSpool(spools)
  const publisher = createDurablePublisher({ link, spool, logger }, createPublishCounts(metrics, spool))
  const adoption = adoptSpools({ ...spools, link })
  const lanes = createEventLanes(config.streams.lanes, {
    publish: publisher.publishEvents, nextMessageId, maxWaitMs: config.groupCommitMs
  })
  const people = createPeopleLanes({ publish: publisher.publishPeople, nextMessageId })

  let ready = true
  const onUnexpected = (err: unknown): void => logger.error({ err }, 'an event could not be stored')
  const takeEvent = createTakeEvent(createNormaliseEvent({
    describeProperties: createDescribeProperties(now), maxEventBytes: link.maxPayloadBytes
  }), onUnexpected)
  const pool = createLargeBodyPool({ threads: largeBodyThreads(), logger, onUnexpected })
  const captureLarge = createCaptureLarge({
    pool, keys, people, counts, lanes: config.streams.lanes, maxEventBytes: link.maxPayloadBytes,
    maxDecompressedBytes: config.limits.maxDecompressedBytes,
    publishFrames: createPublishFrames({ publish: publisher.publishEvents, nextMessageId })
  })
  const budget = new BodyBudget(LARGE_BODIES)
  metrics.countersFrom('key_lookups_total', 'Lookups of API keys: hits in memory, and misses that read Postgres.', 'outcome',
    () => [['hit', keys.state.hits], ['miss', keys.state.misses]])
  metrics.gaugeFrom('spool_max_bytes', 'Bytes the spool may hold; beyond, requests get 503.', () => config.spool.maxBytes)
  metrics.gaugeFrom('large_body_bytes', 'Bytes of large bodies in memory.', () => budget.used)
  const app = await buildIngestApp({
    capture: createCapture({
      keys, takeEvent, lanes, people, captureLarge, budget, counts, limits: config.limits, now
    }),
    counts,
    metrics,
    isReady: () => ready,
    parts: () => [
      { name: 'nats', healthy: link.isUp() },
      { name: 'spool', healthy: spool.isEmpty, bytes: spool.bytes, maxBytes: config.spool.maxBytes },
      // Known keys are answered without Postgres, also after a failed reading.
      { name: 'keys', healthy: keys.state.isCurrent || keys.state.hits + keys.state.misses === 0 }
    ],
    apiUrl: config.apiUrl,
    processId,
    logger
  })
  // Two processes may share the port, so that one can be replaced without a refused connection.
  const listenOptions: FastifyListenOptions & ListenOptions = { ...config.http, reusePort: true }
  await app.listen(listenOptions)
  const address = app.server.address()
  const port = typeof address === 'object' && address !== null ? address.port : config.http.port

  return {
    app,
    port,
    shutdownSteps: [
      { name: 'say not ready', run: () => { ready = false } },
      { name: 'finish requests', run: async () => await app.close() },
      { name: 'stop the threads', run: async () => await pool.close() },
      { name: 'stop adopting spools', run: async () => await adoption.stop() },
      { name: 'stop draining the spool', run: async () => await publisher.close() },
      { name: 'close nats', run: async () => await link.close() },
      { name: 'stop listening for keys', run: async () => await listener.stop() },
      { name: 'close postgres', run: async () => await sql.end({ timeout: 1 }) }
    ]
  }
}
