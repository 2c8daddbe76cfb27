import { hash } from 'node:crypto'
import { jetstream } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { type NatsConnection } from '../../platform/connect-nats.ts'
import { deadLetterSubject } from '../../schema/streams.ts'
import { type RefusedUpdate } from './people-outcome.ts'

/**
 * Publishes refused updates as dead letters; resolves when the stream has all of them.
 *
 * The id of the message follows from its content, so that a transaction tried again does not leave a second one.
 *
 * @throws when the stream is away or full: then the partition waits, rather than forget what it refused.
 */
export async function keepRefused (connection: NatsConnection, refused: readonly RefusedUpdate[]): Promise<void> {
  const client = jetstream(connection)
  for (const { reason, detail, payload } of refused) {
    const header = headers()
    header.set('Millrace-Stage', 'people')
    header.set('Millrace-Reason', reason)
    header.set('Millrace-Error', detail.replaceAll(/[\r\n]+/g, ' ').slice(0, 1000))
    header.set('Millrace-Time', new Date().toISOString())
    await client.publish(deadLetterSubject('people', reason), payload, {
      msgID: `people:${reason}:${hash('sha1', payload)}`, headers: header
    })
  }
}
