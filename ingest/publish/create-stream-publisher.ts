import { jetstream } from '@nats-io/jetstream'
import { headers as createHeaders } from '@nats-io/transport-node'
import { type NatsConnection } from '../../platform/connect-nats.ts'
import { type Publish } from './outgoing-message.ts'

/**
 * Publishes to JetStream; resolves when the stream has the message, be it as a duplicate.
 *
 * @param options.ackTimeoutMs  How long to wait for the acknowledgement before the message counts as not published.
 */
export function createStreamPublisher (options: { connection: NatsConnection, ackTimeoutMs: number }): Publish {
  const client = jetstream(options.connection)
  return async function publishToStream (message) {
    const headers = createHeaders()
    for (const name in message.headers) headers.append(name, message.headers[name] as string)
    await client.publish(message.subject, message.payload, {
      msgID: message.id,
      headers,
      timeout: options.ackTimeoutMs
    })
  }
}
