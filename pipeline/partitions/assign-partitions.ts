import { partitionKey, type Partition } from './partition-record.ts'

/**
 * Which process should write which partition: a pure function of the processes in the order in which they joined, so
 * all that see the same processes agree without talking.
 *
 * Partitions of a class are dealt out round robin, live ones from the embedded ClickHouse server and historical ones
 * from the back, so that both classes and their sum are spread evenly:
 *
 * ```
 *                live.0  live.1  live.2  |  historical.0  historical.1  historical.2
 * 2 processes:     A       B       A     |       B             A             B
 * ```
 */
export function assignPartitions (members: readonly string[], partitions: readonly Partition[]): Map<string, string> {
  const assigned = new Map<string, string>()
  if (members.length === 0) return assigned
  for (const partition of partitions) {
    const position = partition.number % members.length
    const index = partition.eventClass === 'live' ? position : members.length - 1 - position
    assigned.set(partitionKey(partition), members[index]!)
  }
  return assigned
}
