import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { FingerprintKey } from '../../schema/wire/frame-message.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { ShutdownStep } from '../../platform/process-lifecycle.ts'
import type { IngestConfig } from '../config.ts'
import { createDurablePublisher, createPublishCounts, type PublishFailures } from './durable-publisher.ts'
import { createEventPartitions, createPublishFrames, type EventPartitions, type PublishFrames } from './event-partitions.ts'
import { countStoredLetters, createBuildLetter, type Quarantine, type Spend } from './quarantine.ts'
import { createPersonsPartitions, type PersonsPartitions } from './persons-partitions.ts'
import { Registry } from '../registry/registry.ts'
import { openStreamLink, type StreamLink } from './stream-link.ts'
import { WarningTotals } from '../warnings/warning-totals.ts'
import { adoptSpools, openOwnSpool } from '../spool/spool-folders.ts'
import type { Spool } from '../spool/spool.ts'

/** Everything behind a finished row: open messages, the stream, the spool. */
export interface Publishing {
  partitions: EventPartitions
  persons: PersonsPartitions
  warnings: WarningTotals
  publishFrames: PublishFrames
  quarantine: Quarantine
  link: StreamLink
  spool: Spool
  failures: Readonly<PublishFailures>
  registry: Registry
  shutdownSteps: ShutdownStep[]
}

/** A stream that did not acknowledge by then is taken for unavailable. SDKs give a request up after 10 s. */
const ACK_TIMEOUT_MS = 3000

const STREAM_WAIT_MS = 2000

/**
 * Connects publishing: the stream, the spool, the open messages. While the stream is unavailable, events are spooled.
 *
 * @param options.processId  Prefix of message ids, different in each process.
 * @param options.spend      Counts events that are stored only while they are published (`Quotas.spend`).
 * @throws {MillraceError} `MILLRACE_STREAM_MISMATCH`, `MILLRACE_NATS_SERVER_TOO_OLD`; or what the disk says about the
 *   spool folder.
 */
export async function openPublishing (
  config: IngestConfig, options: {
    logger: Logger, metrics: Metrics, processId: string, fingerprintKey: () => FingerprintKey | null, spend: Spend
  }
): Promise<Publishing> {
  const { logger, metrics, processId, fingerprintKey, spend } = options
  let messages = 0
  const nextMessageId = (): string => `${processId}-${(messages++).toString(36)}`

  let warnings: WarningTotals | null = null
  const link = openStreamLink({
    url: config.natsUrl, limits: config.streams, ackTimeoutMs: ACK_TIMEOUT_MS,
    logger, onLetterStored: countStoredLetters(metrics, () => warnings, spend)
  })
  await Promise.race([link.opened, delay(STREAM_WAIT_MS)])
  link.opened.catch((err: unknown) => logger.fatal({ err }, 'NATS cannot be used in its current state; nothing is published until it is repaired'))

  const spools = { root: path.join(config.spool.dataDir, 'spool'), maxBytes: config.spool.maxBytes, logger }
  const spool = await openOwnSpool(spools)
  metrics.gaugeFrom('spool_max_bytes', 'Maximum bytes of the spool; when full, requests get 503.', () => spools.maxBytes)
  const publisher = createDurablePublisher({ link, spool, logger }, createPublishCounts(metrics, spool))
  const registry = new Registry({ processId, link, spool, replicas: config.streams.replicas, logger })
  const { publishedThrough } = registry
  const adoption = adoptSpools({ ...spools, link, retire: async (folder) => await registry.retire(folder) })
  await registry.start()

  const events = { publish: publisher.publishEvents, nextMessageId }
  warnings = new WarningTotals({ ...events, source: processId, logger, now: Date.now })
  return {
    partitions: createEventPartitions(config.streams.partitions, {
      ...events, fingerprintKey, publishedThrough, maxWaitMs: config.groupCommitMs
    }),
    persons: createPersonsPartitions({ publish: publisher.publishPersons, nextMessageId }),
    warnings,
    publishFrames: createPublishFrames(events),
    quarantine: {
      buildLetter: createBuildLetter(config.streams.partitions, fingerprintKey),
      // What has no letter is an event that is stored, and the watermark waits for it.
      publish: (letter) => {
        const inFlight = publishedThrough.begin(Number(letter.headers[HEADER.received]))
        const done = publisher.publishEvents(letter).finally(() => publishedThrough.end(inFlight))
        // A request that failed for another reason does not await it.
        done.catch(() => {})
        return done
      }
    },
    link,
    spool,
    failures: publisher.failures,
    registry,
    shutdownSteps: [
      { name: 'publish the last warnings', run: async () => await warnings.close() },
      { name: 'stop adopting spools', run: async () => await adoption.stop() },
      { name: 'stop draining the spool', run: async () => await publisher.close() },
      { name: 'remove the entry from NATS', run: async () => await registry.stop() },
      { name: 'give the spool back', run: async () => await spool.close() },
      { name: 'close nats', run: async () => await link.close() }
    ]
  }
}
