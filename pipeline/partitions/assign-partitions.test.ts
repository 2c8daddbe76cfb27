import t from 'tap'
import { EVENT_CLASSES } from '../../schema/streams.ts'
import { assignPartitions } from './assign-partitions.ts'
import { type Partition } from './partition-record.ts'

function listPartitions (count: number): Partition[] {
  return EVENT_CLASSES.flatMap((eventClass) => Array.from({ length: count }, (_, number) => ({ eventClass, number })))
}

t.test('gives one process everything, and nobody nothing', async (t) => {
  t.same([...assignPartitions(['a'], listPartitions(1)).entries()], [['live.0', 'a'], ['historical.0', 'a']])
  t.equal(assignPartitions([], listPartitions(1)).size, 0)
})

t.test('spreads the partitions evenly, in each class and in total', async (t) => {
  for (let partitions = 1; partitions <= 9; partitions++) {
    for (let count = 1; count <= 4; count++) {
      const members = ['a', 'b', 'c', 'd'].slice(0, count)
      const assigned = [...assignPartitions(members, listPartitions(partitions))]
      const spread = (keys: string[]): number => {
        const held = members.map((member) =>
          assigned.filter(([key, owner]) => owner === member && keys.includes(key)).length)
        return Math.max(...held) - Math.min(...held)
      }
      const keys = assigned.map(([key]) => key)
      t.ok(spread(keys.filter((key) => key.startsWith('live'))) <= 1)
      t.ok(spread(keys) <= 1, `${partitions} partitions over ${count} processes`)
    }
  }
})
