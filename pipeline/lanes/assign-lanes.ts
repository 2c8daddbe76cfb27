import { laneKey, type Lane } from './lane-record.ts'

/**
 * Which process should write which lane: a pure function of the processes in the order in which they joined, so all
 * that see the same processes agree without talking.
 *
 * Lanes of a class are dealt out round robin, live ones from the front and historical ones from the back, so that both
 * classes and their sum are spread evenly:
 *
 * ```
 *                live.0  live.1  live.2  |  historical.0  historical.1  historical.2
 * 2 processes:     A       B       A     |       B             A             B
 * ```
 */
export function assignLanes (members: readonly string[], lanes: readonly Lane[]): Map<string, string> {
  const assigned = new Map<string, string>()
  if (members.length === 0) return assigned
  for (const lane of lanes) {
    const position = lane.number % members.length
    const index = lane.eventClass === 'live' ? position : members.length - 1 - position
    assigned.set(laneKey(lane), members[index]!)
  }
  return assigned
}
