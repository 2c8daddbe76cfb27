/**
 * A real ClickHouse cluster on this machine, for `npm run check:cluster` and `npm run faults -- --clickhouse 4`: each
 * node is a process of its own with a disk, ports and a name of its own, the code is that of ClickHouse.
 *
 * What it is not: ZooKeeper stands in for ClickHouse Keeper; one host, without TLS; logins come from a users.xml;
 * `system.asynchronous_metrics` and `system.zookeeper` are missing. A means to test, and nothing for production.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { askHttp, waitUntilReady } from '../../../embedded/supervisor/processes/service.ts'
import { spawnProcess } from '../../../embedded/supervisor/processes/spawn-process.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../faults/system/tcp-fault-proxy.ts'
import type { Supervise, SupervisedPart } from '../../faults/system/supervise.ts'
import { freePort } from '../../support/local-ports.ts'
import { LAB_PASSWORD, renderLogins } from './lab-logins.ts'
import { type LabPrograms, prepareLab } from './prepare-lab.ts'

/** Name of the cluster of all nodes. */
export const LAB_CLUSTER = 'millrace'

/** A node of ClickHouse. */
export interface LabNode extends SupervisedPart {
  /** From 1. */
  readonly index: number
  readonly shard: number
  /** What its cluster definition says of it: every node reaches it there, past a proxy. */
  readonly tcpPort: number
  /** Its own HTTP, for one login. */
  url (user: string, database?: string): string
  /** Its peers do not reach it and it does not reach ZooKeeper, but its clients reach it. */
  cutOff (): void
  rejoin (): void
}

export interface ClickHouseLab {
  nodes: LabNode[]
  zooKeeper: SupervisedPart
  /** Like a Kubernetes Service: each new connection goes to the next node that is ready. */
  url (user: string, database?: string): string
  /** Adds a node that knows all others; they and clients do not know it before `join`. */
  add (shard: number): Promise<LabNode>
  /** Starts the nodes again one after the other; `leave` without this one, which goes on running. */
  join (node: LabNode): Promise<void>
  leave (node: LabNode): Promise<void>
  /** Cuts every node off ZooKeeper, until called with `pass`. */
  setZooKeeper (fault: 'pass' | 'refuse' | 'stall'): void
  /** Ends the proxies; the processes are ended by their supervisor. */
  close (): Promise<void>
}

/** Ports and proxies of a node. */
interface Place {
  index: number
  shard: number
  httpPort: number
  tcpPort: number
  /** Of replicas that fetch parts. */
  interserver: TcpFaultProxy
  native: TcpFaultProxy
  zooKeeper: TcpFaultProxy
}

/** All files of a node, of which `index` counts from 1. */
export const folderOfNode = (dataDir: string, index: number): string => path.join(dataDir, `clickhouse-${index}`)

const START_TIMEOUT_MS = 60_000
const READY_EVERY_MS = 500
/** A probe of Kubernetes asks every 10 s and gives up after a second; three failures take the pod out. */
const READY_TIMEOUT_MS = 2000

export interface StartLabOptions {
  dataDir: string
  /** Of each node. */
  shards: readonly number[]
  /** Passwords of further logins that may do everything, by name. */
  owners?: Readonly<Record<string, string>>
}

/** Starts ZooKeeper and a number of nodes for each shard. Data is in `dataDir`, whose owner removes it. */
export async function startLab (
  { dataDir, shards, owners }: StartLabOptions, supervise: Supervise
): Promise<ClickHouseLab> {
  const [programs, logins] = [await prepareLab(), await renderLogins(owners)]
  const zooKeeperPort = await freePort()
  const zooKeeper = await supervise('zookeeper', async (signal, onSpawn) =>
    await startZooKeeper(path.join(dataDir, 'zookeeper'), { port: zooKeeperPort, programs, signal, onSpawn }))
  const places: Place[] = []
  const nodes: LabNode[] = []
  /** Those that every node knows. */
  const joined: Place[] = []

  async function startNode (place: Place): Promise<void> {
    const folder = folderOfNode(dataDir, place.index)
    const part = await supervise(`clickhouse ${place.index}`, async (signal, onSpawn) => {
      await mkdir(folder, { recursive: true })
      await writeFile(path.join(folder, 'users.xml'), logins)
      await writeFile(path.join(folder, 'config.xml'), renderConfig(place, joined.includes(place) ? joined : [...joined, place], folder))
      const child = await spawnProcess({
        name: `clickhouse-${place.index}`,
        command: programs.node,
        args: [`--config-file=${path.join(folder, 'config.xml')}`, `--path=${path.join(folder, 'data')}`, '--query', SERVE],
        cwd: folder,
        env: {
          PATH: process.env.PATH, CHDB_LIB: programs.chdb, NODE_ID: String(place.index),
          INTERSERVER_HOST: '127.0.0.1', INTERSERVER_PORT: String(place.interserver.port)
        },
        logFile: path.join(folder, 'logs', 'output.log'),
        // clickhouse-local does not end by another signal while its query runs.
        stopSignal: 'SIGKILL',
        onSpawn
      })
      await waitUntilReady(child, { isReady: async () => await ping(place), timeoutMs: START_TIMEOUT_MS, signal })
      return child
    })
    const proxies = proxiesOf(place)
    nodes.push(Object.assign(part, {
      index: place.index, shard: place.shard, tcpPort: place.tcpPort,
      url: (user: string, database?: string) => clickHouseUrl(hostOf(place), place.httpPort, user, database),
      cutOff () { for (const proxy of proxies) proxy.set('refuse') },
      rejoin () { for (const proxy of proxies) proxy.set('pass') }
    }))
  }

  async function choosePlace (shard: number): Promise<Place> {
    const index = places.length + 1
    const [httpPort, tcpPort] = [await freePort(), await freePort()]
    const place = { index, shard, httpPort, tcpPort }
    const [interserver, native, keeper] = await Promise.all([
      startTcpFaultProxy({ host: interserverHostOf(place), port: httpPort }),
      // The port of the server itself: a node knows by it which replica of the definition it is.
      startTcpFaultProxy({ host: hostOf(place), port: tcpPort }, tcpPort),
      startTcpFaultProxy({ port: zooKeeperPort })
    ])
    const whole = { ...place, interserver, native, zooKeeper: keeper }
    places.push(whole)
    return whole
  }

  for (const shard of shards) joined.push(await choosePlace(shard))
  await Promise.all([...places].map(startNode))
  nodes.sort((one, other) => one.index - other.index)
  const service = await startService(joined)
  return {
    nodes, zooKeeper,
    url: (user, database) => clickHouseUrl('127.0.0.1', service.port, user, database),
    async add (shard) {
      await startNode(await choosePlace(shard))
      return nodes.at(-1) as LabNode
    },
    async join (node) {
      joined.push(places[node.index - 1] as Place)
      for (const each of nodes) await each.restart()
    },
    async leave (node) {
      joined.splice(joined.indexOf(places[node.index - 1] as Place), 1)
      nodes.splice(nodes.indexOf(node), 1)
      for (const each of nodes) await each.restart()
    },
    setZooKeeper (fault) { for (const place of places) place.zooKeeper.set(fault) },
    async close () {
      await service.close()
      await Promise.all(places.flatMap(proxiesOf).map(async (proxy) => { await proxy.close() }))
    }
  }
}

/** Listens on both addresses, and goes on until it is killed. */
const SERVE = 'SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; ' +
  'SELECT sleepEachRow(3) FROM system.numbers SETTINGS max_block_size = 1, max_execution_time = 0 FORMAT Null'

const proxiesOf = ({ interserver, native, zooKeeper }: Place): TcpFaultProxy[] => [interserver, native, zooKeeper]

/** Not 127.0.0.1, on whose port the proxy listens; clients and peers. */
const hostOf = ({ index }: Pick<Place, 'index'>): string => `127.0.1.${index}`
const interserverHostOf = ({ index }: Pick<Place, 'index'>): string => `127.0.2.${index}`

function clickHouseUrl (host: string, port: number, user: string, database = 'millrace'): string {
  return `http://${user}${user === 'default' ? '' : `:${LAB_PASSWORD}`}@${host}:${port}/${database}`
}

async function ping (place: Place): Promise<boolean> {
  return (await askHttp(`http://${hostOf(place)}:${place.httpPort}/ping`)).status === 200
}

function renderConfig (own: Place, places: readonly Place[], folder: string): string {
  const shards = [...Map.groupBy(places, ({ shard }) => shard).values()].map((replicas) => `
      <shard><internal_replication>true</internal_replication>${replicas.map(({ tcpPort }) => `
        <replica><host>127.0.0.1</host><port>${tcpPort}</port></replica>`).join('')}
      </shard>`)
  return `<clickhouse>
    <logger><level>warning</level><log>${folder}/logs/server.log</log><errorlog>${folder}/logs/error.log</errorlog></logger>
    <path>${folder}/data/</path>
    <listen_host>${hostOf(own)}</listen_host><listen_host>${interserverHostOf(own)}</listen_host>
    <http_port>${own.httpPort}</http_port><tcp_port>${own.tcpPort}</tcp_port>
    <users_config>${folder}/users.xml</users_config>
    <macros><shard>${own.shard}</shard><replica>clickhouse-${own.index}</replica></macros>
    <remote_servers replace="replace"><${LAB_CLUSTER}><secret>of the lab</secret>${shards.join('')}
    </${LAB_CLUSTER}></remote_servers>
    <zookeeper>
      <node><host>127.0.0.1</host><port>${own.zooKeeper.port}</port></node>
      <session_timeout_ms>30000</session_timeout_ms><operation_timeout_ms>20000</operation_timeout_ms>
    </zookeeper>
    <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
    <max_server_memory_usage>2500000000</max_server_memory_usage>
    <mark_cache_size>100000000</mark_cache_size>
    <background_pool_size>2</background_pool_size>
    <background_fetches_pool_size>16</background_fetches_pool_size>
    <background_common_pool_size>8</background_common_pool_size>
    <background_schedule_pool_size>64</background_schedule_pool_size>
    <merge_tree>
      <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
      <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
      <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
    </merge_tree>
    <access_control_improvements><table_engines_require_grant>false</table_engines_require_grant></access_control_improvements>
    <backups><allowed_path>${path.dirname(folder)}/backups/</allowed_path></backups>
    <query_log><database>system</database><table>query_log</table><flush_interval_milliseconds>2000</flush_interval_milliseconds></query_log>
  </clickhouse>`
}

interface StartZooKeeperOptions {
  port: number
  programs: LabPrograms
  signal: AbortSignal
  onSpawn: Parameters<Parameters<Supervise>[1]>[1]
}

/** A node of ZooKeeper. It flushes nothing, which this machine would wait for: it is killed, never its machine. */
async function startZooKeeper (folder: string, { port, programs, signal, onSpawn }: StartZooKeeperOptions) {
  await mkdir(folder, { recursive: true })
  const config = path.join(folder, 'zoo.cfg')
  await writeFile(config, `tickTime=2000
maxSessionTimeout=120000
dataDir=${path.join(folder, 'data')}
clientPort=${port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
`)
  await writeFile(path.join(folder, 'log4j.properties'), `log4j.rootLogger=WARN, C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=%d %p %c %m%n
`)
  const child = await spawnProcess({
    name: 'zookeeper',
    command: 'java',
    args: ['-Xmx512m', '-Dzookeeper.forceSync=no', '-Djute.maxbuffer=50000000', '-cp', `${folder}:${programs.zooKeeper}`,
      'org.apache.zookeeper.server.quorum.QuorumPeerMain', config],
    env: { PATH: process.env.PATH },
    logFile: path.join(folder, 'logs', 'zookeeper.log'),
    onSpawn
  })
  const isReady = async (): Promise<boolean> => {
    const socket = net.connect(port, '127.0.0.1')
    socket.setTimeout(READY_TIMEOUT_MS, () => socket.destroy(new Error('no answer')))
    socket.write('srvr')
    return Buffer.concat(await socket.toArray() as Buffer[]).includes('Mode: standalone')
  }
  await waitUntilReady(child, { isReady, timeoutMs: START_TIMEOUT_MS, signal })
  return child
}

async function startService (places: readonly Place[]): Promise<{ port: number, close: () => Promise<void> }> {
  const ready = new Set<Place>()
  async function probe (place: Place): Promise<void> {
    if (await ping(place).catch(() => false)) ready.add(place)
    else ready.delete(place)
  }
  await Promise.all(places.map(probe))
  const stopped = new AbortController()
  const timer = setInterval(() => { for (const place of places) void probe(place) }, READY_EVERY_MS)
  let next = 0
  const server = net.createServer((client) => {
    const candidates = ready.size === 0 ? places : places.filter((place) => ready.has(place))
    const place = candidates[next++ % candidates.length] as Place
    const node = net.connect(place.httpPort, hostOf(place))
    for (const [from, to] of [[client, node], [node, client]] as const) {
      from.setNoDelay(true)
      from.pipe(to)
      from.on('error', () => {})
      from.on('close', () => to.destroy())
    }
    stopped.signal.addEventListener('abort', () => client.destroy(), { once: true })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close () {
      clearInterval(timer)
      stopped.abort()
      server.close()
      await once(server, 'close')
    }
  }
}
