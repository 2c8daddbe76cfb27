import { errorCode, HttpError, MillraceError } from '../../engines/errors.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { drainSpool } from '../spool/drain-spool.ts'
import type { Spool } from '../spool/spool.ts'
import type { OutgoingMessage, Publish } from './acknowledged-publisher.ts'
import type { StreamLink } from './stream-link.ts'

export interface DurablePublisherOptions {
  link: StreamLink
  spool: Spool
  logger: Logger
}

/**
 * Publishes a message so that it is durable whatever happens to the stream:
 *
 * ```
 *            acknowledged
 *   stream ----------------> done
 *     | refused, silent, unavailable, too slow
 *     v        fsynced
 *   spool -----------------> done, and drained into the stream later, under the same message id
 *     | full, disk refuses
 *     v
 *   503: the client keeps the events
 * ```
 *
 * A message that is larger than the server takes says nothing about the stream: it alone goes to the spool, and from
 * there into a file of its own.
 *
 * After an event failed everything goes to the spool, without trying the stream first, until an event arrived there: a
 * spooled one, or one every ten seconds that tries, as spooled ones may be far behind updates. Persons updates follow
 * the spool until it is empty, because their order matters; when only their stream is full, which one project can bring
 * about, events go on to theirs.
 */
export interface DurablePublisher {
  publishEvents: Publish
  publishPersons: Publish
  /** Why the last write failed, by code; null when it succeeded. */
  readonly failures: Readonly<PublishFailures>
  /** Stops draining; spooled messages stay for the next process. Close the spool afterwards. */
  close (): Promise<void>
}

export interface PublishFailures {
  stream: string | null
  /** Also null when the stream takes messages again: the spool is not needed then. */
  spool: string | null
}

/** Plain counters of messages; the metrics read them when they are scraped. */
interface PublishCounts {
  /** Acknowledged by the stream at once. */
  published: number
  /** Kept on the disk instead. */
  spooled: number
  /** Published from the spool later. */
  drained: number
  /** Accepted neither by the stream nor by the spool: answered with 503. */
  refused: number
  /** Published and not yet acknowledged. */
  inFlightBytes: number
  /** Milliseconds from publishing a message to its acknowledgement, when it was not spooled. */
  observeAckMs (ms: number): void
}

/** Maximum bytes published and not yet acknowledged; beyond, messages go to the spool. */
const MAX_IN_FLIGHT_BYTES = 67_108_864

/** Interval between events that try the suspect stream, ms. If it is silent, each waits for the acknowledgement. */
const PROBE_INTERVAL_MS = 10_000

export function createDurablePublisher (options: DurablePublisherOptions, counts: PublishCounts): DurablePublisher {
  const { link, spool, logger } = options
  const stopped = new AbortController()
  let probeAt: number | null = null
  let draining: Promise<void> | null = null
  const failures: PublishFailures = { stream: null, spool: null }
  // Left by an earlier process.
  if (!spool.isEmpty) startDraining()

  return {
    publishEvents: async (message) => await publishOrSpool(message, probeAt !== null && !isProbe(message, probeAt)),
    publishPersons: async (message) => await publishOrSpool(message, probeAt !== null || !spool.isEmpty),
    failures,
    async close () {
      stopped.abort()
      await draining
    }
  }

  async function publishOrSpool (message: OutgoingMessage, spoolFirst: boolean): Promise<void> {
    const isBeyondRoom = counts.inFlightBytes + message.payload.length > MAX_IN_FLIGHT_BYTES
    if (spoolFirst || !link.isUp() || isBeyondRoom) return await keep(message)
    if (probeAt !== null) probeAt = performance.now() + PROBE_INTERVAL_MS
    try {
      await publishCounted(message, link, counts)
      onPublished(message)
    } catch (error) {
      if (isTooLarge(error)) return await keep(message)
      if (probeAt === null) logger.warn({ err: error, subject: message.subject }, 'publishing to the stream failed; messages go to the spool')
      if (isEvents(message)) probeAt ??= performance.now() + PROBE_INTERVAL_MS
      failures.stream = codeOf(error)
      await keep(message)
    }
  }

  function onPublished (message: OutgoingMessage): void {
    failures.stream = failures.spool = null
    if (probeAt !== null && isEvents(message)) logger.info('the stream accepts events again; draining the spool')
    if (isEvents(message)) probeAt = null
  }

  async function keep (message: OutgoingMessage): Promise<void> {
    try {
      await spool.append(message)
      failures.spool = null
      counts.spooled++
    } catch (error) {
      counts.refused++
      failures.spool = codeOf(error)
      if (!(error instanceof MillraceError)) logger.error({ err: error }, 'could not write to the spool')
      throw new HttpError(503, 'server_error', 'stream_unavailable', 'Events cannot be stored at the moment. Try again.', { cause: error })
    } finally {
      // Also after a refusal: the spool is not empty then, or the stream is to be tried again.
      if (spool.isEmpty) probeAt = null
      else startDraining()
    }
  }

  function startDraining (): void {
    draining ??= drainSpool({ spool, publish: publishSpooled, logger, signal: stopped.signal })
      .finally(() => {
        draining = null
        // Something may have been appended after the last read.
        if (spool.isEmpty) probeAt = null
        else if (!stopped.signal.aborted) startDraining()
      })
  }

  async function publishSpooled (message: OutgoingMessage): Promise<void> {
    try {
      if (!await publishOrSetAside(message, { link, spool })) return
      onPublished(message)
      counts.drained++
    } catch (error) {
      failures.stream = codeOf(error)
      await link.repair(stopped.signal)
      throw error
    }
  }
}

async function publishCounted (message: OutgoingMessage, link: StreamLink, counts: PublishCounts): Promise<void> {
  const bytes = message.payload.length
  const startedAt = performance.now()
  counts.inFlightBytes += bytes
  try {
    await link.publish(message)
    counts.published++
    counts.observeAckMs(performance.now() - startedAt)
  } finally {
    counts.inFlightBytes -= bytes
  }
}

/**
 * Publishes a spooled message; sets one aside that its stream does not take while it takes others.
 *
 * @returns whether the stream has it.
 */
export async function publishOrSetAside (
  message: OutgoingMessage, { link, spool }: { link: StreamLink, spool: Spool }
): Promise<boolean> {
  try {
    await link.publish(message)
    return true
  } catch (error) {
    if (!isTooLarge(error)) throw error
    await spool.writeRefusedRecord(message, 'it is larger than max_payload of NATS')
    return false
  }
}

const isEvents = ({ subject }: OutgoingMessage): boolean => subject.startsWith('events.')

const isTooLarge = (error: unknown): boolean =>
  error instanceof MillraceError && error.code === 'MILLRACE_MESSAGE_TOO_LARGE'

const isProbe = (message: OutgoingMessage, probeAt: number): boolean =>
  isEvents(message) && performance.now() > probeAt

/** Codes and names only: `/_health` is public, and messages may name addresses. */
function codeOf (error: unknown): string {
  return errorCode(error) || (error instanceof Error ? error.name : 'unknown')
}

export function createPublishCounts (metrics: Metrics, spool: Pick<Spool, 'bytes' | 'refusedBytes'>): PublishCounts {
  const ackSeconds = metrics.histogram('publish_seconds', 'Time from publishing a message to its acknowledgement.',
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5])
  const counts: PublishCounts = {
    published: 0, spooled: 0, drained: 0, refused: 0, inFlightBytes: 0,
    observeAckMs: (ms) => ackSeconds.observe(ms / 1000)
  }
  metrics.countersFrom('messages_total', 'Messages by outcome; a spooled one counts again when drained.', ['outcome'],
    () => (['published', 'spooled', 'drained', 'refused'] as const).map((outcome) => [{ outcome }, counts[outcome]] as const))
  metrics.gaugeFrom('in_flight_bytes', 'Bytes published but not yet acknowledged.', () => counts.inFlightBytes)
  metrics.gaugeFrom('spool_bytes', 'Spooled bytes waiting to be published.', () => spool.bytes)
  metrics.gaugeFrom('spool_refused_bytes', 'Spooled bytes of messages that the stream refuses; they count against the maximum.', () => spool.refusedBytes)
  return counts
}
