import { setTimeout as delay } from 'node:timers/promises'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { awaitLeaders } from '../../platform/nats/await-leaders.ts'
import { followServerVersions, type ServerVersions } from '../../platform/nats/server-versions.ts'
import { createLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { Logger } from '../../platform/logger.ts'
import { EVENTS_STREAM, MAX_MESSAGE_BYTES, PERSONS_STREAM, type StreamLimits } from '../../schema/wire/streams.ts'
import { createAcknowledgedPublisher, type OutgoingMessage, type Publish } from './acknowledged-publisher.ts'
import { createPublishLetters, type LetterPublishing } from './quarantine.ts'

export interface StreamLinkOptions {
  url: string
  limits: StreamLimits
  /** A message that is not acknowledged by then counts as not published, although it may be in the stream. */
  ackTimeoutMs: number
  logger: Logger
  /** Given each dead letter for which its stream had no room: its event is stored. */
  onLetterStored?: LetterPublishing['onStored']
}

/**
 * The connection to JetStream, which comes and goes.
 *
 * Between connections nothing is handed to the client, which would collect it in memory without bound.
 */
export interface StreamLink {
  /** Connected, and the streams are there. */
  isUp (): boolean
  /** Null before the first one; after that, the client's own, which reconnects. */
  connection (): NatsConnection | null
  /** Resolves when the link is up for the first time; rejects when the streams or the server cannot be used. */
  opened: Promise<void>
  /** What `/_health` says of its servers; nothing before the first. */
  serverParts (): HealthPart[]
  /** Bytes of the largest payload that the server takes. */
  maxPayloadBytes (): number
  /** @throws when the message is not known to be in the stream; `MILLRACE_MESSAGE_TOO_LARGE` when it never will be. */
  publish (message: OutgoingMessage): Promise<void>
  /**
   * Waits until the streams have leaders, and creates those that are missing, as after a server came back empty. Never
   * rejects; ends early when the signal fires.
   */
  repair (signal: AbortSignal): Promise<void>
  close (): Promise<void>
}

/** Room for subject, headers and the protocol within the server's largest message. */
const ENVELOPE_BYTES = 4096

const LONGEST_PAUSE_MS = 1000

/** How long a publish waits for the streams to be looked through before it is tried again, in milliseconds. */
const REPAIR_MS = 300

/** What events and persons updates wait for; letters and warnings follow. */
const NEEDED_LEADERS = { streams: [EVENTS_STREAM, PERSONS_STREAM], cluster: false }

export function openStreamLink (options: StreamLinkOptions): StreamLink {
  const { logger } = options
  let connection: NatsConnection | null = null
  let versions: ServerVersions | null = null
  let isAccepted = false
  let publishMessage: Publish | null = null
  let isUp = false
  let reconnects = 0
  const closed = new AbortController()
  const repairStreams = createRepair(options)
  const opened = open()

  return {
    opened,
    isUp: () => isUp,
    connection: () => connection,
    serverParts: () => versions === null ? [] : [versions.part()],
    maxPayloadBytes: () => Math.min(connection?.info?.max_payload ?? Infinity, MAX_MESSAGE_BYTES) - ENVELOPE_BYTES,
    async publish (message) {
      if (publishMessage === null || !isUp) throw unavailable('NATS is not connected')
      await publishMessage(message)
    },
    async repair (signal) {
      if (isUp && connection !== null) await repairStreams(connection, signal)
    },
    async close () {
      closed.abort()
      isUp = false
      // Everything published is acknowledged or spooled; draining would wait for a server that is unavailable.
      await connection?.close()
    }
  }

  async function open (): Promise<void> {
    const connected = await connectNats({ url: options.url, name: 'millrace-ingest', logger, waitForServer: true })
    if (closed.signal.aborted) return await connected.close()
    connection = connected
    versions = followServerVersions(connected, logger)
    const publisher = createAcknowledgedPublisher(connected, options.ackTimeoutMs)
    publishMessage = createPublishLetters({
      publish: publisher.publish, hasRoom: createLetterRoom(connected), onStored: options.onLetterStored ?? (() => {})
    })
    // Acknowledgements of a lost connection never come: publishes that wait for one are spooled at once.
    const onLost = (): void => {
      isUp = false
      reconnects++
      publisher.abandon(unavailable('the connection to NATS was lost'))
    }
    void watch(connected, onLost, () => comeBack(connected).catch((err: unknown) =>
      logger.error({ err }, 'NATS cannot be used in its current state; nothing is published until it is repaired')))
    await becomeUp()
  }

  /** Waits for usable streams, through everything but a mismatch and an old server, which no waiting repairs. */
  async function becomeUp (): Promise<void> {
    isUp = await succeeds(closed.signal, logger, async () => {
      // Of one that is replaced while events flow, health and log tell.
      if (!isAccepted) await versions?.refuseOld()
      isAccepted = true
      await ensureStreams(connection as NatsConnection, options.limits)
    })
  }

  /**
   * After a reconnect: up as soon as somebody leads the streams that events go to. A server that came back empty has
   * none; then messages are spooled until they are made again.
   */
  async function comeBack (connected: NatsConnection): Promise<void> {
    const connects = ++reconnects
    await awaitLeaders(connected, NEEDED_LEADERS, closed.signal)
    if (connects === reconnects && isAccepted && !closed.signal.aborted && !connected.isClosed()) isUp = true
    try {
      await becomeUp()
    } catch (error) {
      isUp = false
      throw error
    }
  }
}

function createRepair ({ limits, logger }: StreamLinkOptions) {
  let repairing: Promise<void> | null = null
  return async (connection: NatsConnection, signal: AbortSignal): Promise<void> => {
    // Of a cluster that elects a leader: requests into the election would be waited for after its end.
    await awaitLeaders(connection, NEEDED_LEADERS, signal)
    if (signal.aborted) return
    // Not waited for: streams that nobody publishes to now may have no leader yet.
    repairing ??= ensureStreams(connection, limits)
      .catch((err: unknown) => logger.warn({ err }, 'could not create missing streams, will try again'))
      .finally(() => { repairing = null })
    await Promise.race([repairing, delay(REPAIR_MS)])
  }
}

/** Tries until it works; false when the signal fires before. @throws {MillraceError} which no waiting repairs. */
async function succeeds (ended: AbortSignal, logger: Logger, prepare: () => Promise<void>): Promise<boolean> {
  for (let pauseMs = 100; !ended.aborted; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      await prepare()
      return true
    } catch (error) {
      if (error instanceof MillraceError) throw error
      logger.warn({ err: error, retryAfterMs: pauseMs }, 'the streams are not ready')
      await delay(pauseMs)
    }
  }
  return false
}

async function watch (connection: NatsConnection, onLost: () => void, onReconnect: () => void): Promise<void> {
  let isLost = false
  for await (const { type } of connection.status()) {
    if (type === 'disconnect') {
      isLost = true
      onLost()
    } else if (type === 'reconnect' && isLost) {
      // The client says it once for each attempt that failed before.
      isLost = false
      onReconnect()
    }
  }
}

function unavailable (why: string): MillraceError {
  return new MillraceError('MILLRACE_STREAM_UNAVAILABLE', why, { action: 'retry' })
}
