/** The partitions of the events stream: which there are, and which process each of them falls to. */
import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { EVENT_CLASSES, EVENTS_STREAM, eventsSubject, type EventClass } from '../../schema/wire/streams.ts'

/** A partition of one class: what one writer owns at a time. */
export interface Partition {
  eventClass: EventClass
  number: number
}

/** Such as `live.3`: its name in records, tokens, metrics, logs and health. */
export function partitionKey (partition: Partition): string {
  return `${partition.eventClass}.${partition.number}`
}

/**
 * The partitions to be written, by `partitionKey`: the configured ones, and any other that still holds messages because
 * there were more partitions before.
 */
export async function findPartitions (connection: NatsConnection, count: number): Promise<Map<string, Partition>> {
  const partitions = new Map<string, Partition>()
  const add = (partition: Partition): unknown => partitions.set(partitionKey(partition), partition)
  const manager = await jetstreamManager(connection)
  for (const eventClass of EVENT_CLASSES) {
    for (let number = 0; number < count; number++) add({ eventClass, number })
    const { state } = await readStreamInfo(manager, EVENTS_STREAM, { subjects_filter: `events.${eventClass}.*` })
    for (const subject of Object.keys(state.subjects ?? {})) {
      const number = Number(subject.split('.')[2])
      if (subject === eventsSubject(eventClass, number)) add({ eventClass, number })
    }
  }
  return partitions
}

/**
 * Which process should write a partition; undefined without processes. Partitions of a class are dealt out round robin,
 * live ones from the front and historical ones from the back, so that both classes and their sum are spread evenly:
 *
 * ```
 *                live.0  live.1  live.2  |  historical.0  historical.1  historical.2
 * 2 processes:     A       B       A     |       B             A             B
 * ```
 *
 * @param members  The living processes in the order in which they joined.
 */
export function choosePartitionOwner (
  { eventClass, number }: Partition, members: readonly string[]
): string | undefined {
  const position = number % members.length
  return members[eventClass === 'live' ? position : members.length - 1 - position]
}
