import { AckPolicy, DeliverPolicy, type JetStreamManager } from '@nats-io/jetstream'
import { EVENTS_STREAM, eventsSubject, writerConsumer } from '../../../schema/streams.ts'
import { type Lane } from '../../lanes/lane-record.ts'

/**
 * JetStream hands a message out again after this long, in nanoseconds. It never needs to: a lost delivery shows as a
 * gap in the delivery numbers, and then the consumer is made anew.
 */
const ACK_WAIT_NANOS = 6 * 3600 * 1e9

/**
 * Deletes the durable consumer of a lane and makes it anew: it delivers from the first message that nobody
 * acknowledged, in order, and whoever read from the old one is cut off.
 */
export async function recreateConsumer (manager: JetStreamManager, { eventClass, number }: Lane): Promise<void> {
  const name = writerConsumer(eventClass, number)
  // Absent on the first start of a lane, which is fine.
  await manager.consumers.delete(EVENTS_STREAM, name).catch(() => {})
  await manager.consumers.add(EVENTS_STREAM, {
    durable_name: name,
    filter_subject: eventsSubject(eventClass, number),
    deliver_policy: DeliverPolicy.All,
    ack_policy: AckPolicy.Explicit,
    ack_wait: ACK_WAIT_NANOS,
    max_ack_pending: -1,
    max_deliver: -1
  })
}
