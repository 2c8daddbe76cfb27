import { availableParallelism } from 'node:os'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import { type GeoipFile, openGeoipFile } from '../../platform/geoip-file.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { IngestConfig } from '../config.ts'
import type { EnforcedProject } from '../enforcement/read-projects.ts'
import { BodyBudget } from '../large/body-budget.ts'
import { createCaptureLarge, type IngestSecrets } from '../large/capture-large.ts'
import { createLargeBodyPool } from '../large/large-body-pool.ts'
import { createTakeCookieless } from '../normalise/cookieless.ts'
import { DescribedNames } from '../normalise/described-names.ts'
import { createEnrich, createIsBot } from '../normalise/enrich.ts'
import { createReadKnownNames } from '../normalise/known-names.ts'
import { createNormaliseEvent } from '../normalise/normalise-event.ts'
import { createPropertyReader } from '../normalise/read-properties.ts'
import type { Publishing } from '../publish/open-publishing.ts'
import { createAdmissions } from './admissions.ts'
import { type Capture, createCapture } from './capture.ts'
import type { IngestCounts } from './ingest-counts.ts'
import { quotaOfEach, type Quotas } from './quotas.ts'
import { createTakeEvent } from './take-event.ts'

/** Memory for six of the largest bodies; further requests wait for some seconds. */
const LARGE_BODIES = { maxBytes: 120_000_000, maxWaiting: 64, maxWaitMs: 30_000 }

/**
 * Memory for two bodies of the largest size, inflated. Those that wait for it have 256 KiB each, or a share of the
 * memory above.
 */
const INFLATED_BODIES = { maxBytes: 240_000_000, maxWaiting: 256, maxWaitMs: 30_000 }

export interface OpenCaptureDeps {
  sql: Sql
  keys: KeyDirectory<EnforcedProject>
  quotas: Quotas
  secrets: IngestSecrets
  publishing: Publishing
  counts: IngestCounts
  metrics: Metrics
  logger: Logger
}

/** Composes what a request passes between its route and publishing, on the event loop and in threads. */
export async function openCapture (
  config: IngestConfig, { sql, keys, quotas, secrets, publishing, counts, metrics, logger }: OpenCaptureDeps
): Promise<{ capture: Capture, parts: GeoipFile['parts'], close: () => Promise<void> }> {
  const maxEventBytes = publishing.link.maxPayloadBytes
  const limits = { ...config.limits, maxEventBytes, partitions: config.streams.partitions }
  const onUnexpected = (err: unknown): void => logger.error({ err }, 'an event was dropped because of an unexpected error')
  const geoip = await openGeoipFile(config.geoipPath, logger)
  const readKnownNames = createReadKnownNames(sql, logger)
  const names = new DescribedNames(config.names, {
    now: Date.now,
    askKnown: (projectId) => {
      void readKnownNames(projectId).then((known) => { if (known !== null) names.learn(projectId, known) })
    }
  })
  const normaliseEvent = createNormaliseEvent({
    readProperties: createPropertyReader(Date.now, names),
    takeCookieless: createTakeCookieless(secrets.cookielessSalts),
    enrich: createEnrich({ isBot: createIsBot(), locate: config.geoipPath === '' ? null : geoip.locate }),
    maxEventBytes
  })
  const pool = createLargeBodyPool({
    // Of those for one project, one core stays for the event loop; more would only take memory from everything else.
    threads: Math.min(Math.max(availableParallelism() - 1, 1), 2) + 1,
    names: config.names, readKnownNames, logger, onUnexpected
  })
  const budget = new BodyBudget({ ...LARGE_BODIES, reservedBytes: limits.maxBodyBytes })
  const inflated = new BodyBudget({ ...INFLATED_BODIES, reservedBytes: limits.maxDecompressedBytes })
  metrics.gaugeFrom('large_body_bytes', 'Bytes reserved for large request bodies in memory.', () => budget.used)
  metrics.gaugeFrom('inflated_body_bytes', 'Bytes reserved for large decompressed bodies and their unpublished messages.', () => inflated.used)
  const capture = createCapture({
    admissions: createAdmissions({ keys, quotas, commonQuota: quotaOfEach(config.eventsPerSecond) }),
    counts,
    takeEvent: createTakeEvent({
      normaliseEvent, isAnnounced: publishing.persons.isAnnounced, maxPayloadBytes: maxEventBytes, onUnexpected
    }),
    captureLarge: createCaptureLarge({ publishing, pool, inflated, secrets, geoip, limits }),
    budget, publishing, limits
  })
  return {
    capture,
    parts: geoip.parts,
    async close () {
      geoip.close()
      await pool.close()
    }
  }
}
