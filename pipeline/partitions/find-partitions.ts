import { jetstreamManager } from '@nats-io/jetstream'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { EVENT_CLASSES, EVENTS_STREAM, eventsSubject } from '../../schema/streams.ts'
import { partitionKey, type Partition } from './partition-record.ts'

/**
 * The partitions to be written: the configured ones, and any other that still holds messages because there were more
 * partitions before.
 */
export async function findPartitions (connection: NatsConnection, count: number): Promise<Partition[]> {
  const partitions = new Map<string, Partition>()
  const add = (partition: Partition): unknown => partitions.set(partitionKey(partition), partition)
  const manager = await jetstreamManager(connection)
  for (const eventClass of EVENT_CLASSES) {
    for (let number = 0; number < count; number++) add({ eventClass, number })
    const { state } = await manager.streams.info(EVENTS_STREAM, { subjects_filter: `events.${eventClass}.*` })
    for (const subject of Object.keys(state.subjects ?? {})) {
      const number = Number(subject.split('.')[2])
      if (subject === eventsSubject(eventClass, number)) add({ eventClass, number })
    }
  }
  return [...partitions.values()]
}
