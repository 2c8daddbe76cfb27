import { jetstreamManager } from '@nats-io/jetstream'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { EVENT_CLASSES, EVENTS_STREAM, eventsSubject } from '../../schema/streams.ts'
import { laneKey, type Lane } from './lane-record.ts'

/**
 * The lanes to be written: the configured ones, and any other that still holds messages because there were more lanes
 * before.
 */
export async function findLanes (connection: NatsConnection, count: number): Promise<Lane[]> {
  const lanes = new Map<string, Lane>()
  const add = (lane: Lane): unknown => lanes.set(laneKey(lane), lane)
  const manager = await jetstreamManager(connection)
  for (const eventClass of EVENT_CLASSES) {
    for (let number = 0; number < count; number++) add({ eventClass, number })
    const { state } = await manager.streams.info(EVENTS_STREAM, { subjects_filter: `events.${eventClass}.*` })
    for (const subject of Object.keys(state.subjects ?? {})) {
      const number = Number(subject.split('.')[2])
      if (subject === eventsSubject(eventClass, number)) add({ eventClass, number })
    }
  }
  return [...lanes.values()]
}
