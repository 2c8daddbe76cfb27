import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { KeyDirectory } from '../platform/directory/key-directory.ts'
import { openKeys } from '../platform/directory/open-keys.ts'
import { openFingerprintKey } from '../platform/fingerprint-key.ts'
import { API_READINESS_CHECK_MS, type HealthOptions, type HealthPart, type ProcessPhase } from '../platform/health-and-readiness.ts'
import { withTimeout } from '../platform/intervals.ts'
import type { Logger } from '../platform/logger.ts'
import { createMetrics } from '../platform/metrics.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { refuseNewerDatabase } from '../platform/postgres/refuse-newer-database.ts'
import type { ShutdownStep } from '../platform/process-lifecycle.ts'
import { openSdkFiles } from './browser-sdk/browser-sdk-routes.ts'
import { reportEnforced } from './enforcement/enforced-versions.ts'
import { createIngestCounts } from './capture/ingest-counts.ts'
import { openCapture } from './capture/open-capture.ts'
import { createQuotas } from './capture/quotas.ts'
import { createReadEnforced } from './enforcement/read-projects.ts'
import { createNoteRefusals } from './warnings/collect-warnings.ts'
import type { IngestConfig } from './config.ts'
import { openCookielessSalts } from './normalise/cookieless-salts.ts'
import { openPublishing, type Publishing } from './publish/open-publishing.ts'
import { buildIngestApp } from './server/app.ts'
import { CAPTURE_PATHS } from './server/capture-routes.ts'
import { DIALECT_PATHS } from './server/dialect-routes.ts'
import { closeGracefully, limitConnections, listen } from './server/listen.ts'

/** A running ingest tier. */
export interface Ingest {
  app: FastifyInstance
  /** Where it listens; the real port when 0 was asked for. */
  port: number
  /** How to stop it, in the order of the data flow. */
  shutdownSteps: ShutdownStep[]
}

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
 * 3. `platform/directory/`: which project is it, with what `enforcement/` reads of it; `capture/quotas.ts`: has it sent
 *    too much
 * 4. `normalise/`: from what was sent to a row, and to what it changes about persons
 * 5. `frames/`: from rows to a frame
 * 6. `publish/`: messages to the stream; `spool/` keeps them while it is unavailable; `registry/` says how far it is
 *
 * `warnings/` counts what is not stored as sent; `browser-sdk/` serves the scripts that send the events of pages.
 */
export async function startIngest (config: IngestConfig, logger: Logger): Promise<Ingest> {
  const metrics = createMetrics('ingest')
  const counts = createIngestCounts(metrics, [...CAPTURE_PATHS, ...DIALECT_PATHS])
  const processId = randomBytes(6).toString('hex')
  const sql = connectPostgres({ url: config.databaseUrl, max: 2, logger })
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl: config.databaseUrl, withOwners: false, readProjects: createReadEnforced(sql, logger),
    maxWaitMs: KEY_WAIT_MS, now: Date.now, logger, metrics
  })
  reportEnforced(metrics, keys, Date.now)
  const fingerprintKey = openFingerprintKey(sql, logger)
  const cookielessSalts = openCookielessSalts(sql, logger, Date.now)
  await Promise.race([Promise.all([fingerprintKey.read(), cookielessSalts.tried]), delay(FINGERPRINT_KEY_WAIT_MS)])
  const secrets = { fingerprintKey: () => fingerprintKey.current, cookielessSalts: () => cookielessSalts.current }
  const quotas = createQuotas({ metrics, now: Date.now })
  const [publishing] = await Promise.all([
    openPublishing(config, { logger, metrics, processId, fingerprintKey: secrets.fingerprintKey, spend: quotas.spend }),
    // A process that listens before it knows the keys would refuse requests which the one it replaces still takes.
    // Without Postgres it starts all the same.
    withTimeout(KEY_WAIT_MS, keys.ready).catch(() => {}),
    refuseNewerDatabase(sql, logger)
  ])
  const { capture, parts, close: closeCapture } = await openCapture(config, {
    sql, keys, quotas, secrets, publishing, counts, metrics, logger
  })

  let phase: ProcessPhase = 'running'
  const ending = new AbortController()
  const app = await buildIngestApp({
    capture, counts, logger, processId,
    ending: ending.signal,
    ...createNoteRefusals(publishing.warnings, Date.now),
    browserSdk: { keys, files: await openSdkFiles() },
    apiUrl: config.apiUrl,
    trustedProxies: config.trustedProxies,
    health: {
      registry: metrics.registry,
      // Until then every event would be answered with 503: the watermark does not wait for it.
      phase: () => phase === 'running' && !publishing.registry.isRegistered ? 'starting' : phase,
      ...healthOf(config, { ...publishing, keys, parts })
    }
  })
  limitConnections(app.server, { maxConnections: config.limits.maxConnections, metrics, logger })
  return {
    app,
    port: await listen(app, config.http),
    shutdownSteps: [
      { name: 'say not ready', run: () => { phase = 'shutting down' } },
      { name: 'end live feeds', run: () => { ending.abort() } },
      { name: 'finish requests', run: async () => await closeGracefully(app, CLOSE_GRACE_MS) },
      { name: 'stop the threads', run: closeCapture },
      ...publishing.shutdownSteps,
      { name: 'close the keys', run: closeKeys },
      { name: 'close postgres', run: async () => { await Promise.all([fingerprintKey.stop(), cookielessSalts.stop()]); await sql.end({ timeout: 1 }) } }
    ]
  }
}

/** What `/_health` and `/_readiness` say beside the phase of the process. */
function healthOf (
  config: IngestConfig,
  { link, registry, spool, failures, keys, parts }: Publishing & { keys: KeyDirectory, parts: () => HealthPart[] }
): Pick<HealthOptions, 'checks' | 'parts'> {
  const isConnected = (): boolean => link.isUp() && registry.isRegistered
  return {
    checks: {
      nats: async () => { if (!isConnected()) throw new Error('not connected') },
      api: async () => await askApi(config.apiUrl)
    },
    // 503 when one is stuck, although events are taken as long as the spool has room.
    parts: () => [
      { name: 'nats', healthy: isConnected() && failures.stream === null, lastError: failures.stream },
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
      { name: 'keys', healthy: keys.state.isCurrent || keys.state.hits + keys.state.misses === 0 },
      ...parts()
    ]
  }
}

async function askApi (apiUrl: string): Promise<void> {
  const response = await fetch(new URL('/_readiness', apiUrl), { signal: AbortSignal.timeout(API_READINESS_CHECK_MS) })
  // Read to its end, or the connection could not be used again.
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`the API answers ${response.status}`)
}
