import path from 'node:path'
import { startNatsServer } from '../../../embedded/nats/start-nats-server.ts'
import { freePorts } from '../../support/local-ports.ts'
import { waitUntilIdle } from './fault-processes.ts'
import type { Supervise, SupervisedPart } from './supervise.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from './tcp-fault-proxy.ts'

/** A node of the cluster. */
export interface NatsNode extends SupervisedPart {
  readonly port: number
  /** Between it and each of the others, in both directions. Its clients still reach it. */
  readonly routes: readonly TcpFaultProxy[]
}

export interface NatsCluster {
  nodes: readonly NatsNode[]
  /** All nodes, as `NATS_URL` names them. */
  url: string
  /** Ends what lies between the nodes; the nodes are ended by their supervisor. */
  close: () => Promise<void>
}

export interface NatsClusterOptions {
  dataDir: string
  nodes: 1 | 3
  /** Path of another nats-server. */
  binary?: string | undefined
  /** Default false. */
  durable?: boolean
}

/** Nodes tell each other where they are; what they say leads nowhere, or they would find a way past the proxies. */
const NOWHERE = '127.0.0.1:1'

/** Starts nats-servers on this machine, 1 or 3, that replicate their streams among themselves. */
export async function startNatsCluster (
  { dataDir, nodes: count, binary, durable = false }: NatsClusterOptions, supervise: Supervise
): Promise<NatsCluster> {
  const ports = await freePorts(2 * count)
  const indexes = Array.from({ length: count }, (_, index) => index)
  const clientPort = (index: number): number => ports[index] as number
  const routePort = (index: number): number => ports[count + index] as number
  const routes = await Promise.all(indexes.flatMap((from) => indexes.filter((to) => to !== from).map(async (to) => (
    { from, to, proxy: await startTcpFaultProxy({ port: routePort(to) }) }))))
  const clusterConfig = (index: number): string => {
    const others = routes.filter(({ from }) => from === index)
      .map(({ proxy }) => `nats-route://127.0.0.1:${proxy.port}`).join(', ')
    return `cluster {\n  name: millrace\n  listen: "127.0.0.1:${routePort(index)}"\n  advertise: "${NOWHERE}"\n  routes: [${others}]\n}\n`
  }
  const nodes = await waitUntilIdle(indexes.map(async (index) => {
    const name = `nats-${index}`
    const part = await supervise(name, async (signal, onSpawn) => await startNatsServer({
      dataDir: path.join(dataDir, name),
      port: clientPort(index),
      signal,
      onSpawn,
      serverName: name,
      durable,
      binary,
      ...count === 1 ? {} : { extraConfig: clusterConfig(index) }
    }))
    const own = routes.filter(({ from, to }) => from === index || to === index).map(({ proxy }) => proxy)
    return Object.assign(part, { port: clientPort(index), routes: own })
  }))
  return {
    nodes,
    url: nodes.map(({ port }) => `nats://127.0.0.1:${port}`).join(','),
    close: async () => { await Promise.all(routes.map(async ({ proxy }) => { await proxy.close() })) }
  }
}
