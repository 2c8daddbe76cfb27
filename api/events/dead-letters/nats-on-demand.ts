import { JetStreamApiError } from '@nats-io/jetstream'
import { HttpError } from '../../../engines/errors.ts'
import type { Logger } from '../../../platform/logger.ts'
import { connectNats, type NatsConnection } from '../../../platform/nats/connect-nats.ts'

export interface NatsOnDemand {
  /** Rejects while no server answers; the next call tries again. */
  get: () => Promise<NatsConnection>
  close: () => Promise<void>
}

/**
 * Only dead letters need NATS, so the API starts and serves everything else without it. Once open, the connection
 * reconnects by itself.
 */
export function createNatsOnDemand (options: { url: string, logger: Logger }): NatsOnDemand {
  let connection: Promise<NatsConnection> | undefined
  return {
    async get () {
      const made = connection ??= connectNats({ ...options, name: 'millrace-api' })
      try {
        return await made
      } catch (error) {
        if (connection === made) connection = undefined
        throw error
      }
    },
    async close () {
      const made = connection
      connection = undefined
      // Safe to ignore: a connection that could not be made needs no closing.
      await made?.then(async (open) => await open.close(), () => {})
    }
  }
}

/** JetStream error code for a stream that does not exist, as in a new installation. */
const NO_STREAM = 10059

/** Runs a request on what NATS stores; `none` is the result when there is no such stream yet. @throws as `askNats`. */
export async function askStream<T> (
  nats: NatsOnDemand, none: T, ask: (connection: NatsConnection) => Promise<T>
): Promise<T> {
  return await askNats(nats, async (connection) => await ask(connection).catch((error: unknown) => {
    if (error instanceof JetStreamApiError && error.code === NO_STREAM) return none
    throw error
  }), 'This request needs data in NATS, which is unavailable; try again later.')
}

/** @throws {HttpError} 503 when NATS is unavailable or does not take a message. */
export async function askNats<T> (
  nats: NatsOnDemand, ask: (connection: NatsConnection) => Promise<T>, detail: string
): Promise<T> {
  try {
    return await ask(await nats.get())
  } catch (cause) {
    // A bug, not an outage.
    if (cause instanceof HttpError || cause instanceof TypeError || cause instanceof RangeError) throw cause
    throw new HttpError(503, 'server_error', 'stream_unavailable', detail, { cause, action: 'retry' })
  }
}
