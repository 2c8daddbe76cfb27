import { connectClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { ClickHouseLab, LabNode } from '../../cluster/lab/start-lab.ts'
import { pickOne } from '../../support/random.ts'
import { findDamagedParts } from './capacity-faults.ts'
import { type Fault, type FaultContext, FaultUnavailableError, type Heal } from './fault.ts'

/** Of two shards with two replicas each. ZooKeeper is the only one of its kind here. */
export const CLICKHOUSE_CLUSTER_FAULTS: readonly Fault[] = [
  fault('replica-kill', 'kill -9 of one node of ClickHouse, which is started again', [2000, 1000], async (context) => {
    await chooseNode(context).kill()
    return async () => {}
  }),
  fault('replica-stop', 'kill -9 of one node of ClickHouse, which stays away for a while', [30_000, 10_000],
    async (context) => await chooseNode(context).keepStopped('kill')),
  fault('replica-pause', 'SIGSTOP of one node of ClickHouse, then SIGCONT', [30_000, 10_000], async (context) => {
    const node = chooseNode(context)
    await node.pause()
    return async () => { await node.resume() }
  }),
  fault('replica-cut-off', 'one node of ClickHouse reaches neither the others nor ZooKeeper, but its clients reach it',
    [30_000, 10_000], async (context) => {
      const node = chooseNode(context)
      node.cutOff()
      return async () => { node.rejoin() }
    }),
  fault('replica-disk-full', 'the disk of one node of ClickHouse has no room', [20_000, 8000], async (context) => {
    const { system: { replicaDisks }, expect } = context
    if (replicaDisks.length === 0) throw new FaultUnavailableError('only root can mount small disks')
    const node = chooseNode(context)
    const disk = replicaDisks[node.index - 1]
    expect(async () => {
      const client = connectClickHouse({ url: node.url('default', 'millrace') })
      const damaged = await findDamagedParts(async (query, params) => await queryRows(client, query, params))
        .finally(() => client.close())
      return damaged.length === 0 ? null : `damaged parts of ${node.name}: ${damaged.join(', ')}`
    })
    await disk?.fill()
    return async () => { await disk?.free() }
  }),
  fault('replicas-kill', 'kill -9 of one replica of each shard at once', [2000, 1000], async (context) => {
    await Promise.all(shardsOf(context).map(async (nodes) => { await choose(nodes, context).kill() }))
    return async () => {}
  }),
  fault('shard-stop', 'kill -9 of all replicas of a shard, which stay away for a while', [20_000, 8000], async (context) => {
    const starts = await Promise.all(pickOne(shardsOf(context), context.random).map(async (node) => await node.keepStopped('kill')))
    return async () => { await Promise.all(starts.map(async (start) => { await start() })) }
  }),
  fault('shard-cut-off', 'no replica of a shard reaches the other shard or ZooKeeper', [20_000, 8000], async (context) => {
    const nodes = pickOne(shardsOf(context), context.random)
    for (const node of nodes) node.cutOff()
    return async () => { for (const node of nodes) node.rejoin() }
  }),
  fault('zookeeper-kill', 'kill -9 of ZooKeeper, which is started again', [2000, 1000], async (context) => {
    await labOf(context).zooKeeper.kill()
    return async () => {}
  }),
  fault('zookeeper-stop', 'SIGTERM of ZooKeeper, which stays away longer than its sessions live', [45_000, 10_000],
    async (context) => await labOf(context).zooKeeper.keepStopped()),
  fault('zookeeper-stall', 'connections to ZooKeeper stay open, but nothing passes', [20_000, 8000], async (context) => {
    labOf(context).setZooKeeper('stall')
    return async () => labOf(context).setZooKeeper('pass')
  })
]

function fault (
  name: string, what: string, lastsMs: Fault['lastsMs'], inject: (context: FaultContext) => Promise<Heal>
): Fault {
  return { name, what, lastsMs, inject }
}

function labOf ({ system }: FaultContext): ClickHouseLab {
  if (system.clickhouseCluster === null) throw new Error('there is no cluster of ClickHouse')
  return system.clickhouseCluster
}

function chooseNode (context: FaultContext): LabNode {
  return choose(labOf(context).nodes, context)
}

function choose (nodes: readonly LabNode[], { random, note }: FaultContext): LabNode {
  const node = pickOne(nodes, random)
  note(node.name)
  return node
}

function shardsOf (context: FaultContext): LabNode[][] {
  return [...Map.groupBy(labOf(context).nodes, ({ shard }) => shard).values()]
}
