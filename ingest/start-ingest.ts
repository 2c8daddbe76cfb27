import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { API_READINESS_CHECK_MS, type ProcessPhase } from '../platform/health-and-readiness.ts'
import type { Logger } from '../platform/logger.ts'
import { openCookielessSalts } from './normalise/cookieless-salts.ts'
import { openFingerprintKey } from '../platform/fingerprint-key.ts'
import { createMetrics } from '../platform/metrics.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { refuseNewerDatabase } from '../platform/postgres/refuse-newer-database.ts'
import type { ShutdownStep } from '../platform/process-lifecycle.ts'
import { openSdkFiles } from './browser-sdk/sdk-files.ts'
import { buildIngestApp } from './server/app.ts'
import { createCapture } from './capture/capture.ts'
import { limitConnections } from './server/connection-limit.ts'
import { closeGracefully, listen } from './server/listen.ts'
import type { IngestConfig } from './config.ts'
import { createIngestCounts } from './capture/ingest-counts.ts'
import { CAPTURE_PATHS } from './server/capture-routes.ts'
import { CAPTURE_V1_PATHS } from './server/capture-v1-routes.ts'
import { MULTIPART_PATH } from './server/multipart-routes.ts'
import { SEGMENT_PATHS } from './server/segment-routes.ts'
import { BodyBudget } from './large/body-budget.ts'
import { createLargeBodyPool } from './large/large-body-pool.ts'
import { createTakeCookieless } from './normalise/cookieless.ts'
import { DescribedNames } from './normalise/described-names.ts'
import { createReadKnownNames } from './normalise/known-names.ts'
import { createPropertyReader } from './normalise/read-properties.ts'
import { createEnrich, createIsBot } from './normalise/enrich.ts'
import { createNormaliseEvent } from './normalise/normalise-event.ts'
import { withTimeout } from '../platform/intervals.ts'
import { openGeoipFile } from '../platform/geoip-file.ts'
import { openKeys } from '../platform/directory/open-keys.ts'
import { createArrivalFeed } from './publish/arrival-feed.ts'
import { openPublishing } from './publish/open-publishing.ts'
import { reportEnforced } from './capture/enforced-versions.ts'
import { createQuotas } from './capture/quotas.ts'
import { createRateLimit } from './capture/rate-limit.ts'
import { createNoteRefusal, createNoteUnknownPath } from './capture/request-warnings.ts'
import { createTakeEvent } from './capture/take-event.ts'

/** A running ingest tier. */
export interface Ingest {
  app: FastifyInstance
  /** Where it listens; the real port when 0 was asked for. */
  port: number
  /** How to stop it, in the order of the data flow. */
  shutdownSteps: ShutdownStep[]
}

/** Memory for six of the largest bodies; further requests wait for some seconds. */
const LARGE_BODIES = { maxBytes: 120_000_000, maxWaiting: 64, maxWaitMs: 30_000 }

/**
 * Memory for two bodies of the largest size, inflated; the threads take no more at a time. Those that wait for it have
 * 256 KiB each, or a share of the memory above.
 */
const INFLATED_BODIES = { maxBytes: 240_000_000, maxWaiting: 256, maxWaitMs: 30_000 }

/** Maximum wait for Postgres, in milliseconds: of the start, and of a request with an unknown key. */
const KEY_WAIT_MS = 5000

/** Clients that send less often than this have their idle connection closed when the process ends. */
const CLOSE_GRACE_MS = 2000

/** How long the start waits for the secret of fingerprints; without it, duplicates cost ClickHouse a look-up. */
const FINGERPRINT_KEY_WAIT_MS = 1000

/**
 * Composes the tier and starts listening. The life of an event, a folder for each step:
 *
 * 1. `server/`: take the request, answer it
 * 2. `capture/`: find its events and its key, take each event; `large/` does it in a thread for large bodies
 * 3. `platform/directory/`: which project is it; `capture/rate-limit.ts`, `capture/quotas.ts`: has it sent too much
 * 4. `normalise/`: from what was sent to a row, and to what it changes about persons
 * 5. `frames/`: from rows to a frame
 * 6. `publish/`: messages to the stream; `spool/` keeps them while it is unavailable
 *
 * Beside them, `browser-sdk/` serves the scripts that send the events of pages.
 */
export async function startIngest (config: IngestConfig, logger: Logger): Promise<Ingest> {
  const metrics = createMetrics('ingest')
  const counts = createIngestCounts(metrics, [...CAPTURE_PATHS, ...CAPTURE_V1_PATHS, MULTIPART_PATH, ...SEGMENT_PATHS])
  const processId = randomBytes(6).toString('hex')
  const sql = connectPostgres({ url: config.databaseUrl, max: 2, logger })
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl: config.databaseUrl, withOwners: false, withSchemas: true, maxWaitMs: KEY_WAIT_MS,
    now: Date.now, logger, metrics
  })
  reportEnforced(metrics, keys, Date.now)
  const fingerprintKey = openFingerprintKey(sql, logger)
  const cookielessSalts = openCookielessSalts(sql, logger, Date.now)
  await Promise.race([Promise.all([fingerprintKey.read(), cookielessSalts.tried]), delay(FINGERPRINT_KEY_WAIT_MS)])
  const arrivals = createArrivalFeed({ processId, fingerprintKey: () => fingerprintKey.current })
  const [publishing] = await Promise.all([
    openPublishing(config, {
      logger, metrics, processId, fingerprintKey: () => fingerprintKey.current,
      onConnected: (connection) => arrivals.open(connection)
    }),
    // A process that listens before it knows the keys would refuse requests which the one it replaces still takes.
    // Without Postgres it starts all the same.
    withTimeout(KEY_WAIT_MS, keys.ready).catch(() => {}),
    refuseNewerDatabase(sql, logger)
  ])
  const { partitions, persons, warnings, publishFrames, quarantine, link, spool, failures } = publishing

  const onUnexpected = (err: unknown): void => logger.error({ err }, 'an event was dropped because of an unexpected error')
  const maxEventBytes = link.maxPayloadBytes
  const readKnownNames = createReadKnownNames(sql, logger)
  const names = new DescribedNames(config.names, {
    now: Date.now,
    askKnown: (projectId) => {
      void readKnownNames(projectId).then((known) => { if (known !== null) names.learn(projectId, known) })
    }
  })
  const readProperties = createPropertyReader(Date.now, names)
  const takeCookieless = createTakeCookieless(() => cookielessSalts.current)
  const geoip = await openGeoipFile(config.geoipPath, logger)
  const enrich = createEnrich({ isBot: createIsBot(), locate: geoip.locate })
  const normaliseEvent = createNormaliseEvent({ readProperties, takeCookieless, enrich, maxEventBytes })
  const takeEvent = createTakeEvent({
    normaliseEvent, isAnnounced: persons.isAnnounced, maxPayloadBytes: link.maxPayloadBytes, onUnexpected
  })
  const pool = createLargeBodyPool({
    threads: largeBodyThreads(), names: config.names, readKnownNames, logger, onUnexpected
  })
  const budget = new BodyBudget(LARGE_BODIES)
  const inflated = new BodyBudget(INFLATED_BODIES)
  const rateLimit = createRateLimit(config.eventsPerSecond, { metrics, now: Date.now })
  const quotas = createQuotas({ metrics, now: Date.now })
  metrics.gaugeFrom('large_body_bytes', 'Bytes reserved for large request bodies in memory.', () => budget.used)
  metrics.gaugeFrom('inflated_body_bytes', 'Bytes reserved for large request bodies without their compression, and for their messages until they are published.', () => inflated.used)
  const capture = createCapture({
    keys, rateLimit, quotas, counts, takeEvent, partitions, persons, quarantine, warnings, pool, budget, inflated,
    publishFrames,
    arrivals, geoip,
    fingerprintKey: () => fingerprintKey.current,
    cookielessSalts: () => cookielessSalts.current,
    limits: { ...config.limits, maxEventBytes, partitions: config.streams.partitions },
    publishedThrough: publishing.publishedThrough,
    isRegistered: () => publishing.presence.isRegistered
  })

  let phase: ProcessPhase = 'running'
  const ending = new AbortController()
  const app = await buildIngestApp({
    capture, counts, logger, processId,
    ending: ending.signal,
    noteRefusal: createNoteRefusal(warnings, Date.now),
    noteUnknownPath: createNoteUnknownPath(warnings, Date.now),
    browserSdk: { keys, files: await openSdkFiles() },
    apiUrl: config.apiUrl,
    trustedProxies: config.trustedProxies,
    health: {
      registry: metrics.registry,
      // Until then every event would be answered with 503: the watermark does not wait for it.
      phase: () => phase === 'running' && !publishing.presence.isRegistered ? 'starting' : phase,
      checks: {
        nats: async () => { if (!link.isUp() || !publishing.presence.isRegistered) throw new Error('not connected') },
        api: async () => await askApi(config.apiUrl)
      },
      // 503 when one is stuck, although events are taken as long as the spool has room.
      parts: () => [
        {
          name: 'nats',
          healthy: link.isUp() && publishing.presence.isRegistered && failures.stream === null,
          lastError: failures.stream
        },
        ...link.serverParts(),
        {
          name: 'spool',
          healthy: spool.isEmpty && failures.spool === null,
          bytes: spool.bytes,
          refusedBytes: spool.refusedBytes,
          maxBytes: config.spool.maxBytes,
          lastError: failures.spool
        },
        // Known keys are answered without Postgres, also after a failed reading.
        { name: 'keys', healthy: keys.state.isCurrent || keys.state.hits + keys.state.misses === 0 }
      ]
    }
  })
  limitConnections(app.server, { maxConnections: config.limits.maxConnections, metrics, logger })
  return {
    app,
    port: await listen(app, config.http),
    shutdownSteps: [
      { name: 'say not ready', run: () => { phase = 'shutting down' } },
      { name: 'end the live feed', run: () => { arrivals.close(); ending.abort() } },
      { name: 'finish requests', run: async () => await closeGracefully(app, CLOSE_GRACE_MS) },
      { name: 'stop the threads', run: async () => { geoip.close(); await pool.close() } },
      ...publishing.shutdownSteps,
      { name: 'close the keys', run: closeKeys },
      { name: 'close postgres', run: async () => { await Promise.all([fingerprintKey.stop(), cookielessSalts.stop()]); await sql.end({ timeout: 1 }) } }
    ]
  }
}

async function askApi (apiUrl: string): Promise<void> {
  const response = await fetch(new URL('/_readiness', apiUrl), { signal: AbortSignal.timeout(API_READINESS_CHECK_MS) })
  // Read to its end, or the connection could not be used again.
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`the API answers ${response.status}`)
}

/** One core stays for the event loop; more than two threads would only take memory from everything else. */
function largeBodyThreads (): number {
  return Math.min(Math.max(availableParallelism() - 1, 1), 2)
}
