import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { EVENT_CLASSES } from '../../schema/streams.ts'
import { silentLogger } from '../testing/start-test-partition.ts'
import { type Membership } from './membership.ts'
import { type Partition } from './partition-records.ts'
import { assignPartitions, PartitionSupervisor } from './partition-supervisor.ts'

const PARTITIONS = [{ eventClass: 'live', number: 0 }, { eventClass: 'live', number: 1 }] as const

/** Who is there, as this process `me` sees it. */
function createView (members: string[] | null): {
  membership: Membership, set: (next: string[] | null) => void, looks: () => number
} {
  let living = members
  let looks = 0
  const membership = { id: 'me', living: () => { looks++; return living } } as unknown as Membership
  return { membership, set: (next) => { living = next }, looks: () => looks }
}

t.test('hands partitions over when a process joins, takes them back when it leaves, and keeps still in doubt', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const view = createView(['me'])
  const manager = new PartitionSupervisor(PARTITIONS, {
    membership: view.membership,
    logger: silentLogger,
    runPartition: async (_partition, { stop }) => {
      await new Promise((resolve) => stop.addEventListener('abort', resolve))
    }
  })
  t.teardown(() => manager.stop())
  const look = async (): Promise<void> => {
    mock.timers.tick(500)
    await nextTurn()
  }
  const keys = (): string[] => manager.states().map(({ key }) => key).sort()

  manager.start()
  t.same(keys(), ['live.0', 'live.1'])
  view.set(['me', 'other'])
  await look()
  t.same(keys(), ['live.0'])
  view.set(null)
  const looksBefore = view.looks()
  await look()
  t.equal(view.looks(), looksBefore + 1)
  t.same(keys(), ['live.0'])
  view.set(['me'])
  await look()
  t.equal(keys().length, 2)
})

t.test('abandons an insert that hangs, five seconds after it was told to stop', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const manager = new PartitionSupervisor(PARTITIONS.slice(0, 1), {
    membership: createView(['me']).membership,
    logger: silentLogger,
    runPartition: async (_partition, { abort }) => {
      await new Promise((resolve) => abort.addEventListener('abort', resolve))
    }
  })
  manager.start()

  const stopped = manager.stop()
  mock.timers.tick(4999)
  await nextTurn()
  t.equal(manager.states().length, 1, 'the insert has five seconds')
  mock.timers.tick(1)

  await stopped
  t.same(manager.states(), [])
})

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
