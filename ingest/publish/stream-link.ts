import { setTimeout as delay } from 'node:timers/promises'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { MillraceError } from '../../platform/errors.ts'
import { type Logger } from '../../platform/logger.ts'
import { MAX_MESSAGE_BYTES, type StreamLimits } from '../../schema/streams.ts'
import { createAcknowledgedPublisher, type AcknowledgedPublisher } from './acknowledged-publisher.ts'
import { type OutgoingMessage } from './outgoing-message.ts'

/** Room for subject, headers and the protocol within the server's largest message. */
const ENVELOPE_BYTES = 4096

const LONGEST_PAUSE_MS = 5000

export interface StreamLinkOptions {
  url: string
  limits: StreamLimits
  /** A message that is not acknowledged by then counts as not published, although it may be in the stream. */
  ackTimeoutMs: number
  logger: Logger
}

/**
 * The connection to JetStream, which comes and goes.
 *
 * Between connections nothing is handed to the client, which would collect it in memory without bound.
 */
export interface StreamLink {
  /** Connected, and the streams are there. */
  isUp (): boolean
  /** Resolves when the link is up for the first time; rejects when the streams are not usable for us. */
  opened: Promise<void>
  /** Bytes of the largest payload that the server takes. */
  maxPayloadBytes (): number
  /** @throws when the message is not known to be in the stream. */
  publish (message: OutgoingMessage): Promise<void>
  /** Creates streams that are missing, as after a server came back empty. Never rejects. */
  repair (): Promise<void>
  close (): Promise<void>
}

export function openStreamLink (options: StreamLinkOptions): StreamLink {
  const { logger } = options
  let connection: NatsConnection | null = null
  let publisher: AcknowledgedPublisher | null = null
  let isUp = false
  const closed = new AbortController()
  const opened = open()

  return {
    opened,
    isUp: () => isUp,
    maxPayloadBytes () {
      const allowed = connection?.info?.max_payload ?? MAX_MESSAGE_BYTES
      return Math.min(allowed, MAX_MESSAGE_BYTES) - ENVELOPE_BYTES
    },
    publish,
    repair,
    async close () {
      closed.abort()
      isUp = false
      // Everything that was published is acknowledged or spooled by now; draining would wait for a server that is
      // unavailable.
      await connection?.close()
    }
  }

  async function open (): Promise<void> {
    const connected = await connectNats({ url: options.url, name: 'millrace-ingest', logger, waitForServer: true })
    if (closed.signal.aborted) return await connected.close()
    connection = connected
    publisher = createAcknowledgedPublisher(connected, options.ackTimeoutMs)
    void watch(connected)
    await becomeUp()
  }

  /** Waits for usable streams, through everything but a mismatch, which no waiting repairs. */
  async function becomeUp (): Promise<void> {
    for (let pauseMs = 100; !closed.signal.aborted; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      try {
        await ensureStreams(connection as NatsConnection, options.limits)
        isUp = true
        return
      } catch (error) {
        if (error instanceof MillraceError) throw error
        logger.warn({ err: error, retryAfterMs: pauseMs }, 'the streams are not ready')
        await delay(pauseMs)
      }
    }
  }

  async function watch (connected: NatsConnection): Promise<void> {
    for await (const { type } of connected.status()) {
      if (type === 'disconnect') {
        isUp = false
        // Acknowledgements of the lost connection never come: anyone who waits for one spools now, not after a timeout.
        publisher?.abandon(unavailable('the connection to NATS was lost'))
      } else if (type === 'reconnect') {
        becomeUp().catch((err: unknown) => logger.error({ err }, 'the streams cannot be used'))
      }
    }
  }

  async function publish (message: OutgoingMessage): Promise<void> {
    if (publisher === null || !isUp) throw unavailable('NATS is not connected')
    await publisher.publish(message)
  }

  async function repair (): Promise<void> {
    if (!isUp || connection === null) return
    try {
      await ensureStreams(connection, options.limits)
    } catch (err) {
      logger.warn({ err }, 'the streams are not usable')
    }
  }
}

function unavailable (why: string): MillraceError {
  return new MillraceError('MILLRACE_STREAM_AWAY', why, { action: 'retry' })
}
