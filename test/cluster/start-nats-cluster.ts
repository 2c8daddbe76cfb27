import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { startNatsServer } from '../../deploy/local/services/start-nats-server.ts'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { waitUntilIdle } from '../faults/system/wait-until-idle.ts'
import { type Supervise, type SupervisedPart } from '../faults/system/supervise.ts'
import { freePorts } from '../support/free-port.ts'

/** A node of the cluster. */
export interface NatsNode extends SupervisedPart {
  readonly port: number
}

export interface NatsCluster {
  nodes: readonly NatsNode[]
  /** All nodes, as `NATS_URL` names them. */
  url: string
}

/** Starts nats-servers on this machine, 1 or 3, that replicate their streams among themselves. */
export async function startNatsCluster (
  { dataDir, nodes: count }: { dataDir: string, nodes: 1 | 3 }, supervise: Supervise
): Promise<NatsCluster> {
  const ports = await freePorts(2 * count)
  const clientPorts = ports.slice(0, count)
  const routePorts = ports.slice(count)
  const routes = routePorts.map((port) => `nats-route://127.0.0.1:${port}`).join(', ')
  const nodes = await waitUntilIdle(clientPorts.map(async (port, index) => {
    const part = await supervise(nodeName(index), async (signal, onSpawn) => await startNatsServer({
      dataDir: path.join(dataDir, nodeName(index)),
      port,
      signal,
      onSpawn,
      serverName: nodeName(index),
      durable: false,
      ...count === 1
        ? {}
        : { extraConfig: `cluster {\n  name: millrace\n  listen: "127.0.0.1:${routePorts[index]}"\n  routes: [${routes}]\n}\n` }
    }))
    return Object.assign(part, { port })
  }))
  return { nodes, url: nodes.map(({ port }) => `nats://127.0.0.1:${port}`).join(',') }
}

function nodeName (index: number): string {
  return `nats-${index}`
}

/** The state of a replicated stream: who leads it, and whether the others follow. */
export interface StreamReplicas {
  leader: string
  followers: { name: string, current: boolean }[]
}

/** @throws while the stream has no leader. */
export async function readReplicas (connection: NatsConnection, stream: string): Promise<StreamReplicas> {
  const { cluster } = await (await jetstreamManager(connection)).streams.info(stream)
  if (cluster?.leader === undefined) throw new Error(`stream ${stream} has no leader`)
  return { leader: cluster.leader, followers: (cluster.replicas ?? []).map(({ name, current }) => ({ name, current })) }
}
