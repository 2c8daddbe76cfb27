import { AckPolicy, DeliverPolicy, type JetStreamManager } from '@nats-io/jetstream'

export interface DurableConsumer {
  stream: string
  name: string
  /** Subject whose messages it delivers. */
  subject: string
  /** After this long without an acknowledgement JetStream hands a message out again, in milliseconds. */
  ackWaitMs: number
}

/**
 * Deletes a durable consumer and creates it again: it delivers from the first message that nobody acknowledged, in
 * order, and anyone who read from the old one is cut off.
 */
export async function recreateConsumer (
  manager: JetStreamManager, { stream, name, subject, ackWaitMs }: DurableConsumer
): Promise<void> {
  // Absent on the first start, which is fine.
  await manager.consumers.delete(stream, name).catch(() => {})
  await manager.consumers.add(stream, {
    durable_name: name,
    filter_subject: subject,
    deliver_policy: DeliverPolicy.All,
    ack_policy: AckPolicy.Explicit,
    ack_wait: ackWaitMs * 1e6,
    max_ack_pending: -1,
    max_deliver: -1
  })
}
