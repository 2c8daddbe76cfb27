import t from 'tap'
import { createRandom } from '../support/random.ts'
import { startSdkLoad } from '../faults/sdk-load.ts'
import { countLivePartitions } from '../faults/system/fault-processes.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkCluster, CLUSTER_PROJECT_KEY, startClusterSystem, type TierProcess } from './cluster-system.ts'

for (const partitions of [1, 4]) {
  t.test(`stores every event once while the owners of ${partitions} partitions are killed, join and leave`, async (t) => {
    const system = await startClusterSystem(t, { natsNodes: 1, partitions, ingest: 2, pipeline: 2 })
    const load = startSdkLoad({
      ports: system.ingest.map(({ port }) => port), apiKey: CLUSTER_PROJECT_KEY, eventsPerSecond: 800,
      random: createRandom(partitions), refusableShare: 0
    })
    t.teardown(async () => { await load.stop() })
    const owned: number[][] = []
    const waitUntilShared = async (pipeline: readonly TierProcess[]): Promise<void> => {
      await waitFor(async () => {
        const counts = await Promise.all(pipeline.map(countLivePartitions))
        const isEven = Math.max(...counts) - Math.min(...counts) <= 1
        if (counts.reduce((a, b) => a + b) !== partitions || !isEven) return false
        owned.push(counts)
        return true
      }, { everyMs: 100 })
      await load.nextAcknowledged()
    }

    await waitUntilShared(system.pipeline)
    // The supervisor starts it again: its partitions move to the other one, and some of them back.
    await system.pipeline[0]!.kill()
    await waitUntilShared(system.pipeline)
    const third = await system.start('pipeline')
    await waitUntilShared([...system.pipeline, third])
    await system.pipeline[1]!.kill()
    await waitUntilShared([...system.pipeline, third])
    await system.end(third)
    await waitUntilShared(system.pipeline)
    await load.stop()

    t.comment(`${load.ledger.acknowledgedEvents} events; partitions by process: ${owned.map((each) => each.join('+')).join(', ')}`)
    t.equal(load.ledger.givenUp, 0)
    await checkCluster(t, system, load.ledger)
  })
}
