import path from 'node:path'
import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { pino } from 'pino'
import { createFirstProject } from '../../../embedded/supervisor/create-first-project.ts'
import { allShardsUrl, type ClickHouse, connectClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats, type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type ClickHouseLab, folderOfNode, LAB_CLUSTER, startLab } from '../../cluster/lab/start-lab.ts'
import { migrateAll } from '../../../schema/migrate/migrate-all.ts'
import { type ClickHouseFaultProxy, startClickHouseFaultProxy } from './clickhouse-fault-proxy.ts'
import { type FaultService, type Pair, type TierPart, startFaultServices, startFaultTiers } from './fault-processes.ts'
import { type NatsNode, startNatsCluster } from './nats-cluster.ts'
import { supervise, type Supervise, type SupervisedPart } from './supervise.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from './tcp-fault-proxy.ts'
import type { PowerDiskOptions } from './power-disk.ts'
import { mountSmallDisk, type SmallDisk } from './small-disk.ts'

/** Project key of the load. */
export const FAULT_PROJECT_KEY = 'phc_fault_project_key'

/** Personal key of the one user. */
export const FAULT_PERSONAL_KEY = 'phx_fault_personal_key'

/** Small, so that a fault can fill the stream; a minute of the load needs a sixth of it. */
export const FAULT_STREAM_BYTES = 67_108_864

/** Everything a fault may hit, and connections past the proxies for those who look on. */
export interface FaultSystem {
  dataDir: string
  nats: SupervisedPart
  /** Of a cluster, which its clients reach directly; empty for a single server. */
  natsNodes: readonly NatsNode[]
  /** Of a cluster, its first node. */
  clickhouse: SupervisedPart
  /** null: one node, of the embedded engine. */
  clickhouseCluster: ClickHouseLab | null
  /** Of the nodes of that cluster, when small disks were wanted and can be mounted. */
  replicaDisks: readonly SmallDisk[]
  postgres: SupervisedPart
  ingest: Pair
  pipeline: Pair
  /** What the clients do not need: it is asked what it says of the watermark. */
  api: TierPart
  parts: readonly SupervisedPart[]
  proxies: { nats: TcpFaultProxy, postgres: TcpFaultProxy, clickhouse: ClickHouseFaultProxy }
  /** Further settings of the tiers; they hold from the next start of each. */
  tierSettings: Record<string, string>
  /** Says in milliseconds how far the clock of a tier is off. */
  clockFile: (tier: string) => string
  /** Ends and failed starts that no fault caused on purpose. */
  surprises: string[]
  connection: NatsConnection
  sql: Sql
  /** ClickHouse past the proxy. */
  stored: ClickHouse
  /** Rows of a query. */
  select <T>(query: string, params?: Record<string, unknown>): Promise<T[]>
  /** Runs a statement of ClickHouse. */
  command (statement: string): Promise<void>
  stop (): Promise<void>
}

export interface FaultSystemOptions {
  /** Exists; its owner removes it. */
  dataDir: string
  /** Gives the start up. */
  signal: AbortSignal
  /** Both ingest processes listen on one port. */
  sharedPort?: boolean
  /** Default 1. */
  natsNodes?: 1 | 3
  /** Path of another nats-server than the one that `npm start` runs. */
  natsServer?: string | undefined
  /** A cluster of nats-servers flushes as well, as a single one always does. */
  durable?: boolean
  /** Default 1; 4: two shards of two replicas. */
  clickhouseNodes?: 1 | 4
  replicaDisks?: readonly SmallDisk[]
}

/** Ends what one step of the start brought up. */
type Closer = () => Promise<unknown>

/**
 * Starts the three services, proxies in front of them, two ingest and two pipeline processes behind the proxies.
 *
 * @throws when a part does not come up; what was started is ended first.
 */
async function startFaultSystem (options: FaultSystemOptions): Promise<FaultSystem> {
  const closers: Closer[] = []
  const stop = async (): Promise<void> => {
    for (const close of closers.splice(0).reverse()) await close()
  }
  try {
    return { ...await start(options, closers), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function start (options: FaultSystemOptions, closers: Closer[]): Promise<Omit<FaultSystem, 'stop'>> {
  const { dataDir, signal, natsServer } = options
  const { sharedPort = false, natsNodes = 1, durable = false, clickhouseNodes = 1, replicaDisks = [] } = options
  const parts: SupervisedPart[] = []
  const surprises: string[] = []
  /** Parts that are started together are ended together. */
  const superviseAs = (): Supervise => {
    const stage: SupervisedPart[] = []
    closers.push(async () => await Promise.all(stage.map((part) => part.stop())))
    return async (name, startPart) => {
      const onSurprise = (what: string): unknown => surprises.push(what)
      const part = await supervise({ name, start: startPart, giveUp: signal, onSurprise })
      stage.push(part)
      parts.push(part)
      return part
    }
  }

  const superviseServices = superviseAs()
  const ofCluster = { dataDir, nodes: natsNodes, binary: natsServer, durable }
  const cluster = natsNodes === 1 ? null : await startNatsCluster(ofCluster, superviseServices)
  if (cluster !== null) closers.unshift(cluster.close)
  const lab = clickhouseNodes === 1 ? null : await startLab({ dataDir, shards: [1, 1, 2, 2] }, superviseServices)
  if (lab !== null) closers.unshift(lab.close)
  const services = await startFaultServices({ dataDir, cluster, lab, natsServer }, superviseServices)
  const { nats, clickhouse, postgres } = services
  const clusterName = lab === null ? '' : LAB_CLUSTER
  await migrateAll({
    databaseUrl: postgres.url,
    // One node, because a statement for all of them may not be on the next one yet.
    clickhouseUrl: lab?.nodes[0]?.url('default') ?? clickhouse.url,
    topology: lab === null ? {} : { cluster: LAB_CLUSTER }
  })
  await createFirstProject({
    databaseUrl: postgres.url, projectApiKey: FAULT_PROJECT_KEY, personalApiKey: FAULT_PERSONAL_KEY
  })
  const proxies = await startProxies(services, closers)
  const tierSettings = {
    MILLRACE_STREAM_MAX_BYTES: String(FAULT_STREAM_BYTES),
    MILLRACE_DEAD_LETTER_MAX_BYTES: String(FAULT_STREAM_BYTES / 4),
    MILLRACE_STREAM_REPLICAS: String(natsNodes)
  }
  const clockFile = (tier: string): string => path.join(dataDir, `clock-shift-${tier}`)
  const tiers = await startFaultTiers({
    dataDir,
    natsUrl: cluster?.url ?? `nats://127.0.0.1:${proxies.nats.port}`,
    clickhouseUrl: proxies.clickhouse.url,
    cluster: clusterName,
    databaseUrl: withPort(postgres.url, proxies.postgres.port),
    sharedPort,
    settings: tierSettings,
    clockFile
  }, superviseAs())
  return {
    dataDir, nats: nats.part, natsNodes: cluster?.nodes ?? [],
    clickhouse: clickhouse.part, clickhouseCluster: lab, replicaDisks, postgres: postgres.part, ...tiers, parts,
    proxies, tierSettings, clockFile, surprises, ...await connectAudit(services, clusterName, closers)
  }
}

async function startProxies (
  { nats, clickhouse, postgres }: Record<'nats' | 'clickhouse' | 'postgres', FaultService>, closers: Closer[]
): Promise<FaultSystem['proxies']> {
  const proxies = {
    nats: await startTcpFaultProxy(nats),
    postgres: await startTcpFaultProxy(postgres),
    clickhouse: await startClickHouseFaultProxy(clickhouse.url)
  }
  closers.push(async () => await Promise.all(Object.values(proxies).map((proxy) => proxy.close())))
  return proxies
}

/** Connections of those who look on. */
async function connectAudit (
  { nats, clickhouse, postgres }: Record<'nats' | 'clickhouse' | 'postgres', FaultService>, cluster: string, closers: Closer[]
): Promise<Pick<FaultSystem, 'connection' | 'sql' | 'stored' | 'select' | 'command'>> {
  const connection = await connectNats({ url: nats.url, name: 'fault-audit', logger: pino({ level: 'silent' }) })
  const sql = connectPostgres({ url: postgres.url, max: 2 })
  // It is asked while it is unavailable, too.
  const client = connectClickHouse({ url: allShardsUrl(clickhouse.url, cluster), cluster })
  closers.push(async () => await Promise.all([connection.close(), sql.end({ timeout: 1 }), client.close()]))
  return {
    connection,
    sql,
    stored: client,
    async select<T> (query: string, params: Record<string, unknown> = {}) {
      return await (await client.query({ query, query_params: params, format: 'JSONEachRow' })).json<T>()
    },
    async command (query) { await client.command({ query }) }
  }
}

function withPort (url: string, port: number): string {
  const changed = new URL(url)
  changed.port = String(port)
  return changed.href
}

export interface OpenFaultSystemOptions extends Omit<FaultSystemOptions, 'dataDir' | 'durable' | 'replicaDisks'> {
  /**
   * All data is to be on a small disk, or that of each node of a cluster of ClickHouse on its own; where none can be
   * mounted, it is on the usual one.
   */
  wantsSmallDisk?: boolean
  /** Of that disk. */
  disk?: PowerDiskOptions
}

/** A running system on a data directory of its own, which goes with it. */
export interface OpenedFaultSystem extends AsyncDisposable {
  system: FaultSystem
  /** null: not wanted, or not allowed here. */
  disk: SmallDisk | null
  /** Copies the logs to where they stay, and tells where. */
  keepLogs (): Promise<string>
  /** Ends everything and removes the data directory. */
  close (): Promise<void>
}

export async function openFaultSystem (options: OpenFaultSystemOptions): Promise<OpenedFaultSystem> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-faults-'))
  const { wantsSmallDisk = false, clickhouseNodes } = options
  const folders = clickhouseNodes === 4 ? [1, 2, 3, 4].map((index) => folderOfNode(dataDir, index)) : [dataDir]
  // Anyone who looks at the table learns that the fault was not run.
  const disks = wantsSmallDisk ? await mountSmallDisks(folders, options.disk) : []
  const disk = clickhouseNodes === 4 ? null : disks[0] ?? null
  let system: FaultSystem | undefined
  const close = async (): Promise<void> => {
    for (const each of disks) await each.free()
    await system?.stop()
    for (const each of disks) await each.unmount()
    await rm(dataDir, { recursive: true, force: true })
  }
  try {
    const replicaDisks = disk === null ? disks : []
    system = await startFaultSystem({ dataDir, ...options, durable: disk !== null, replicaDisks })
  } catch (error) {
    const logs = await copyLogs(dataDir)
    await close()
    throw new Error(`the system did not start; its logs are in ${logs}`, { cause: error })
  }
  return { system, disk, keepLogs: async () => await copyLogs(dataDir), close, [Symbol.asyncDispose]: close }
}

/** @returns none when they cannot be mounted here. */
async function mountSmallDisks (folders: readonly string[], options?: PowerDiskOptions): Promise<SmallDisk[]> {
  const disks: SmallDisk[] = []
  try {
    for (const folder of folders) {
      await mkdir(folder, { recursive: true })
      disks.push(await mountSmallDisk(folder, options))
    }
    return disks
  } catch {
    for (const disk of disks) await disk.unmount()
    return []
  }
}

async function copyLogs (dataDir: string): Promise<string> {
  const kept = await mkdtemp(path.join(tmpdir(), 'millrace-faults-logs-'))
  for (const folder of ['.', ...await readdir(dataDir)]) {
    // Not every folder has logs.
    await cp(path.join(dataDir, folder, 'logs'), path.join(kept, folder), { recursive: true }).catch(() => {})
  }
  return kept
}
