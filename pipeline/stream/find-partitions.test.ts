import t from 'tap'
import { EVENT_CLASSES } from '../../schema/wire/streams.ts'
import { choosePartitionOwner, partitionKey } from './find-partitions.ts'

/** Who has which of `count` partitions of each class. */
function assign (members: readonly string[], count: number): (readonly [key: string, owner: string | undefined])[] {
  return EVENT_CLASSES.flatMap((eventClass) => Array.from({ length: count }, (_, number) => {
    const partition = { eventClass, number }
    return [partitionKey(partition), choosePartitionOwner(partition, members)] as const
  }))
}

t.test('gives one process everything, and nobody nothing', async (t) => {
  t.same(assign(['a'], 1), [['live.0', 'a'], ['historical.0', 'a']])
  t.same(assign([], 1), [['live.0', undefined], ['historical.0', undefined]])
})

t.test('spreads the partitions evenly, in each class and in total', async (t) => {
  for (let partitions = 1; partitions <= 9; partitions++) {
    for (let count = 1; count <= 4; count++) {
      const members = ['a', 'b', 'c', 'd'].slice(0, count)
      const assigned = assign(members, partitions)
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
