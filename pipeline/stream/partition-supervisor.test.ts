import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { EVENT_CLASSES } from '../../schema/wire/streams.ts'
import { silentLogger } from '../testing/start-test-partition.ts'
import { choosePartitionOwner, partitionKey } from './find-partitions.ts'
import { FencedError } from './partition-records.ts'
import { PartitionState } from './partition-state.ts'
import { PartitionSupervisor, runSessions, type PartitionSupervisorOptions } from './partition-supervisor.ts'

/** Supervises two partitions, dealt out to the members in turn, as the process `me`. */
function supervise (
  members: string[] | null, runPartition: PartitionSupervisorOptions<number>['runPartition']
): { supervisor: PartitionSupervisor<number>, set: (next: string[] | null) => void, polls: () => number } {
  let living = members
  let polls = 0
  const supervisor = new PartitionSupervisor({
    partitions: new Map([['a', 0], ['b', 1]]),
    chooseOwner: (partition, members) => members[partition % members.length],
    membership: { id: 'me', living: () => { polls++; return living } },
    logger: silentLogger,
    runPartition
  })
  return { supervisor, set: (next) => { living = next }, polls: () => polls }
}

t.test('hands partitions over when a process joins, takes them back when it leaves, and keeps still in doubt', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const { supervisor, set, polls } = supervise(['me'], async (_partition, { stop }) => {
    await new Promise((resolve) => stop.addEventListener('abort', resolve))
  })
  t.teardown(() => supervisor.stop())
  const poll = async (): Promise<void> => {
    mock.timers.tick(500)
    await nextTurn()
  }
  const keys = (): string[] => supervisor.states().map(({ key }) => key).sort()

  supervisor.start()
  t.same(keys(), ['a', 'b'])
  set(['me', 'other'])
  await poll()
  t.same(keys(), ['a'])
  set(null)
  const pollsBefore = polls()
  await poll()
  t.equal(polls(), pollsBefore + 1)
  t.same(keys(), ['a'])
  set(['me'])
  await poll()
  t.equal(keys().length, 2)
})

t.test('abandons a hanging insert five seconds after it was stopped', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  const { supervisor } = supervise(['me', 'other'], async (_partition, { abort }) => {
    await new Promise((resolve) => abort.addEventListener('abort', resolve))
  })
  supervisor.start()

  const stopped = supervisor.stop()
  mock.timers.tick(4999)
  await nextTurn()
  t.equal(supervisor.states().length, 1, 'the insert has five seconds')
  mock.timers.tick(1)

  await stopped
  t.same(supervisor.states(), [])
})

/** Runs sessions that end as the functions of a list do, and after these are stopped. */
async function run (sessions: ((state: PartitionState) => void)[]): Promise<{ state: PartitionState, count: number }> {
  const state = new PartitionState('a')
  const stop = new AbortController()
  const idle = new AbortController().signal
  let count = 0
  await runSessions({ state, stop: stop.signal, abort: idle, giveUp: idle, logger: silentLogger }, async () => {
    const session = sessions[count++]
    if (session === undefined) stop.abort()
    else session(state)
  })
  return { state, count }
}

function fail (): never {
  throw new Error('lost')
}

t.test('follows a failed session with another one, and counts failures until there is progress', async (t) => {
  const failing = await run([fail, fail])
  t.match(failing, { count: 3, state: { phase: 'failing', lastError: 'lost', failedSessions: 2 } })

  const recovered = await run([fail, fail, (state) => { state.recover(); fail() }])
  t.match(recovered, { count: 4, state: { failedSessions: 1 } })
})

t.test('leaves a partition to the process that owns it or took it over', async (t) => {
  const owned = await run([(state) => { state.phase = 'standby' }, fail])
  t.match(owned, { count: 1, state: { phase: 'standby' } })

  const taken = await run([() => { throw new FencedError('a') }, fail])
  t.match(taken, { count: 1, state: { phase: 'standby', failedSessions: 0 } })
})

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
