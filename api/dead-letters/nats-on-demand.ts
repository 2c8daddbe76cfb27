import { JetStreamApiError } from '@nats-io/jetstream'
import { HttpError } from '../../platform/errors.ts'
import { type Logger } from '../../platform/logger.ts'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'

/** A connection that is made when it is first needed. */
export interface NatsOnDemand {
  /** Rejects while no server answers; the next call tries again. */
  get: () => Promise<NatsConnection>
  close: () => Promise<void>
}

/**
 * Of the whole API only dead letters need NATS, so it starts and serves everything else without. Once made, the
 * connection repairs itself.
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

/** Code of the JetStream API: no such stream, which is how an installation without any dead letter may begin. */
const NO_STREAM = 10059

/**
 * Asks the stream of dead letters.
 *
 * @param none  The answer when there is no such stream yet.
 * @throws {HttpError} 503 when NATS is unavailable or does not take a message.
 */
export async function askStream<T> (
  nats: NatsOnDemand, none: T, ask: (connection: NatsConnection) => Promise<T>
): Promise<T> {
  try {
    return await ask(await nats.get())
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === NO_STREAM) return none
    // A bug is not the stream's.
    if (error instanceof HttpError || error instanceof TypeError || error instanceof RangeError) throw error
    throw new HttpError(503, 'server_error', 'stream_unavailable',
      'Dead letters need the stream, which is not available at the moment; try again later.',
      { cause: error, action: 'retry' })
  }
}
