import { JetStreamApiError } from '@nats-io/jetstream'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { HttpError } from '../../platform/errors.ts'
import { type NatsOnDemand } from './nats-on-demand.ts'

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
