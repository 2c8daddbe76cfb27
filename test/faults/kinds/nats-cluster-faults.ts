import { jetstreamManager } from '@nats-io/jetstream'
import { EVENTS_STREAM } from '../../../schema/wire/streams.ts'
import { pickOne } from '../../support/random.ts'
import { waitFor } from '../../support/wait-for.ts'
import type { NatsNode } from '../system/nats-cluster.ts'
import type { Fault, FaultContext } from './fault.ts'

/** A node that comes back has to fetch what it missed before the next one may go. */
const CAUGHT_UP_WITHIN_MS = 60_000

/** Of three nats-servers, two of which are enough. */
export const NATS_CLUSTER_FAULTS: readonly Fault[] = [
  {
    name: 'nats-leader-kill',
    what: 'kill -9 of the nats-server that leads the events',
    lastsMs: [1000, 500],
    async inject (context) {
      await (await chooseLeader(context)).kill()
      // The supervisor heals it.
      return async () => {}
    }
  },
  {
    name: 'nats-leader-stop',
    what: 'SIGTERM of the nats-server that leads the events, and its start',
    lastsMs: [0, 0],
    async inject (context) {
      await (await chooseLeader(context)).restart()
      return async () => {}
    }
  },
  {
    name: 'nats-node-pause',
    what: 'SIGSTOP of one of three nats-servers, then SIGCONT',
    lastsMs: [30_000, 10_000],
    async inject (context) {
      const node = chooseNode(context)
      await node.pause()
      return async () => { await node.resume() }
    }
  },
  {
    name: 'nats-rolling-restart',
    what: 'SIGTERM of each of three nats-servers, one after the other',
    lastsMs: [0, 0],
    async inject (context) {
      for (const node of context.system.natsNodes) {
        await node.restart()
        await waitUntilCaughtUp(context)
      }
      return async () => {}
    }
  },
  {
    name: 'nats-node-cut-off',
    what: 'one of three nats-servers reaches neither of the others, but its clients reach it',
    lastsMs: [30_000, 15_000],
    async inject (context) {
      const node = chooseNode(context)
      for (const route of node.routes) route.set('refuse')
      return async () => { for (const route of node.routes) route.set('pass') }
    }
  }
]

async function chooseLeader ({ system, note }: FaultContext): Promise<NatsNode> {
  const leader = await waitFor(async () => (await readEventsCluster(system.connection))?.leader)
  note(leader)
  return system.natsNodes.find(({ name }) => name === leader) as NatsNode
}

function chooseNode ({ system, random, note }: FaultContext): NatsNode {
  const node = pickOne(system.natsNodes, random)
  note(node.name)
  return node
}

async function waitUntilCaughtUp ({ system }: FaultContext): Promise<void> {
  await waitFor(async () => {
    const { leader, replicas = [] } = await readEventsCluster(system.connection) ?? {}
    return leader !== undefined && replicas.length === 2 && replicas.every(({ current }) => current)
  }, { timeoutMs: CAUGHT_UP_WITHIN_MS, everyMs: 200 })
}

async function readEventsCluster (connection: FaultContext['system']['connection']) {
  const manager = await jetstreamManager(connection, { timeout: 1000, checkAPI: false })
  return (await manager.streams.info(EVENTS_STREAM)).cluster
}
