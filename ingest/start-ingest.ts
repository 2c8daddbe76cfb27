import { randomBytes } from 'node:crypto'
import { type ListenOptions } from 'node:net'
import { type FastifyInstance, type FastifyListenOptions } from 'fastify'
import { connectNats } from '../platform/connect-nats.ts'
import { connectPostgres } from '../platform/connect-postgres.ts'
import { ensureStreams } from '../platform/ensure-streams.ts'
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
import { createDescribeProperties } from './normalise/describe-properties.ts'
import { createNormaliseEvent } from './normalise/normalise-event.ts'
import { createStreamPublisher } from './publish/create-stream-publisher.ts'
import { createEventLanes } from './publish/event-lanes.ts'
import { createPeopleLanes } from './publish/people-lanes.ts'
import { createTakeEvent } from './take-event.ts'

/** A running ingest tier. */
export interface Ingest {
  app: FastifyInstance
  /** Where it listens; the real port when 0 was asked for. */
  port: number
  /** What to do to end it, in the order of the data flow. */
  shutdownSteps: ShutdownStep[]
}

/** A stream that did not acknowledge by then is taken for away. */
const ACK_TIMEOUT_MS = 5000

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
  const nats = await connectNats({ url: config.natsUrl, name: 'millrace ingest', logger, waitForServer: true })
  await ensureStreams(nats, config.streams)
  const publish = createStreamPublisher({ connection: nats, ackTimeoutMs: ACK_TIMEOUT_MS })
  const nextMessageId = (): string => `${processId}-${(messages++).toString(36)}`
  const lanes = createEventLanes(config.streams.lanes, { publish, nextMessageId, maxWaitMs: config.groupCommitMs })
  const people = createPeopleLanes({ publish, nextMessageId })

  let ready = true
  const takeEvent = createTakeEvent(createNormaliseEvent(createDescribeProperties(now)))
  const app = await buildIngestApp({
    capture: createCapture({ keys, takeEvent, lanes, people, counts, limits: config.limits, now }),
    counts,
    metrics,
    isReady: () => ready,
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
      { name: 'close nats', run: async () => await nats.drain() },
      { name: 'stop listening for keys', run: async () => await listener.stop() },
      { name: 'close postgres', run: async () => await sql.end({ timeout: 1 }) }
    ]
  }
}
