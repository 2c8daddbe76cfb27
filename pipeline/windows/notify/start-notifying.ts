/** What is sent to targets: stored events are queued for them, and what is queued is delivered. */
import { createLetterRoom } from '../../../platform/dead-letters/letter-room.ts'
import { createSender, type SendOptions } from './send-notification.ts'
import { type DeliveryDeps, startDeliveries } from './deliver-queue.ts'
import { type QueueEventsDeps, startQueueingEvents } from './queue-events.ts'

export type NotifyingDeps = Omit<DeliveryDeps, 'send' | 'hasRoom' | 'now'> & QueueEventsDeps &
  { targets: Omit<SendOptions, 'now'> }

/** Runs until stopped, in the one process that leads. */
export function startNotifying (deps: NotifyingDeps): { stop: () => Promise<void> } {
  const now = Date.now
  const sender = createSender({ ...deps.targets, now })
  const hasRoom = createLetterRoom(deps.connection)
  const deliveries = startDeliveries({ ...deps, send: sender.send, hasRoom, now })
  const events = startQueueingEvents(deps)
  return {
    async stop () {
      await Promise.all([events.stop(), deliveries.stop()])
      await sender.close()
    }
  }
}
