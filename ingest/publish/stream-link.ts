import { setTimeout as delay } from 'node:timers/promises'
import { jetstream, type JetStreamClient } from '@nats-io/jetstream'
import { headers as createHeaders } from '@nats-io/transport-node'
import { connectNats, type NatsConnection } from '../../platform/connect-nats.ts'
import { ensureStreams } from '../../platform/ensure-streams.ts'
import { MillraceError } from '../../platform/errors.ts'
import { type Logger } from '../../platform/logger.ts'
import { MAX_MESSAGE_BYTES } from '../../schema/streams.ts'
import { type StreamLimits } from '../../schema/stream-settings.ts'
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
  let client: JetStreamClient | null = null
  let isUp = false
  const closed = new AbortController()
  /** Ends the waiting for acknowledgements of the current connection. */
  const waiting = new Set<(error: Error) => void>()
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
      // Everything that was published is acknowledged or spooled by now; draining would wait for a server that is away.
      await connection?.close()
    }
  }

  async function open (): Promise<void> {
    const connected = await connectNats({ url: options.url, name: 'millrace-ingest', logger, waitForServer: true })
    if (closed.signal.aborted) return await connected.close()
    connection = connected
    client = jetstream(connected)
    void watch(connected)
    await becomeUp()
  }

  /** Waits for usable streams, through everything but a mismatch, which no waiting mends. */
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
        // Acknowledgements of the lost connection never come: whoever waits for one spools now, not after a timeout.
        const error = new MillraceError('MILLRACE_STREAM_AWAY', 'the connection to NATS was lost', { action: 'retry' })
        for (const reject of waiting) reject(error)
      } else if (type === 'reconnect') {
        becomeUp().catch((err: unknown) => logger.error({ err }, 'the streams cannot be used'))
      }
    }
  }

  async function publish (message: OutgoingMessage): Promise<void> {
    if (client === null || !isUp) {
      throw new MillraceError('MILLRACE_STREAM_AWAY', 'NATS is not connected', { action: 'retry' })
    }
    const headers = createHeaders()
    for (const name in message.headers) headers.append(name, message.headers[name] as string)
    const acknowledged = client.publish(message.subject, message.payload, {
      msgID: message.id, headers, timeout: options.ackTimeoutMs
    })
    await new Promise<unknown>((resolve, reject) => {
      waiting.add(reject)
      acknowledged.then(resolve, reject).finally(() => waiting.delete(reject))
    })
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
