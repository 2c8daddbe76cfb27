import t from 'tap'
import { EVENT_CLASSES } from '../../schema/streams.ts'
import { assignLanes } from './assign-lanes.ts'
import { type Lane } from './lane-record.ts'

function listLanes (count: number): Lane[] {
  return EVENT_CLASSES.flatMap((eventClass) => Array.from({ length: count }, (_, number) => ({ eventClass, number })))
}

t.test('gives one process everything, and nobody nothing', async (t) => {
  t.same([...assignLanes(['a'], listLanes(1)).entries()], [['live.0', 'a'], ['historical.0', 'a']])
  t.equal(assignLanes([], listLanes(1)).size, 0)
})

t.test('spreads the lanes evenly, in each class and in total', async (t) => {
  for (let lanes = 1; lanes <= 9; lanes++) {
    for (let count = 1; count <= 4; count++) {
      const members = ['a', 'b', 'c', 'd'].slice(0, count)
      const assigned = [...assignLanes(members, listLanes(lanes))]
      const spread = (keys: string[]): number => {
        const held = members.map((member) =>
          assigned.filter(([key, owner]) => owner === member && keys.includes(key)).length)
        return Math.max(...held) - Math.min(...held)
      }
      const keys = assigned.map(([key]) => key)
      t.ok(spread(keys.filter((key) => key.startsWith('live'))) <= 1)
      t.ok(spread(keys) <= 1, `${lanes} lanes over ${count} processes`)
    }
  }
})
