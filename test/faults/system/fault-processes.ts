import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { startTier } from '../../../embedded/supervisor/start-parts.ts'
import { startClickHouse } from '../../../embedded/supervisor/start-clickhouse.ts'
import type { Service, ServiceOptions } from '../../../embedded/supervisor/processes/service.ts'
import { startNatsServer } from '../../../embedded/nats/start-nats-server.ts'
import { startPostgres } from '../../../embedded/postgres/start-postgres.ts'
import { allShardsUrl } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { ClickHouseLab } from '../../cluster/lab/start-lab.ts'
import { freePorts } from '../../support/local-ports.ts'
import { withoutSettings } from '../../support/environments.ts'
import { waitFor } from '../../support/wait-for.ts'
import { pickOne, type Random } from '../../support/random.ts'
import type { NatsCluster } from './nats-cluster.ts'
import type { Supervise, SupervisedPart } from './supervise.ts'
import type { FaultSystem } from './fault-system.ts'

/** A process of a tier, and where it answers. */
export interface TierPart extends SupervisedPart {
  readonly port: number
}

export type Pair = readonly [TierPart, TierPart]

export interface FaultTiersOptions {
  dataDir: string
  natsUrl: string
  clickhouseUrl: string
  /** Of ClickHouse; empty: one node. */
  cluster: string
  databaseUrl: string
  /** Both ingest processes listen on one port. */
  sharedPort: boolean
  /** Further settings; read at each start of a tier. */
  settings: Readonly<Record<string, string>>
  /** Of a tier; see `shift-clock.ts`. */
  clockFile: (tier: string) => string
}

/** Two partitions, so that each of the two pipeline processes has one. */
export const PARTITIONS = 2

const PORT_SETTINGS = { ingest: 'MILLRACE_PORT', pipeline: 'MILLRACE_PIPELINE_PORT', api: 'MILLRACE_API_PORT' } as const

/** As long as Ctrl-C may take. */
const STOP_TIMEOUT_MS = 9500

/** Starts two pipeline and two ingest processes, and one of the API. */
export async function startFaultTiers (
  options: FaultTiersOptions, supervise: Supervise
): Promise<{ ingest: Pair, pipeline: Pair, api: TierPart }> {
  const env = {
    ...withoutSettings(process.env),
    NATS_URL: options.natsUrl,
    CLICKHOUSE_URL: options.clickhouseUrl,
    DATABASE_URL: options.databaseUrl,
    MILLRACE_PARTITIONS: String(PARTITIONS),
    MILLRACE_CLICKHOUSE_CLUSTER: options.cluster,
    NODE_OPTIONS: `--import=${path.join(import.meta.dirname, 'shift-clock.ts')}`
  }
  const start = async (name: 'ingest' | 'pipeline' | 'api', index: number, port: number): Promise<TierPart> => {
    const dataDir = path.join(options.dataDir, `${name}-${index}`)
    await mkdir(dataDir, { recursive: true })
    const portSetting = PORT_SETTINGS[name]
    const part = await supervise(`${name} ${index}`, async (signal, onSpawn) => await startTier({
      name, port, host: '127.0.0.1', dataDir, signal, onSpawn, stopTimeoutMs: STOP_TIMEOUT_MS,
      env: {
        ...env,
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_TEST_CLOCK_FILE: options.clockFile(name),
        [portSetting]: String(port),
        ...name === 'api' ? { CLICKHOUSE_URL: allShardsUrl(options.clickhouseUrl, options.cluster) } : {},
        ...options.settings
      }
    }))
    return Object.assign(part, { port })
  }
  const ports = await freePorts(5)
  type Five = [TierPart, TierPart, TierPart, TierPart, TierPart]
  const [ingest0, ingest1, pipeline0, pipeline1, api] = await waitUntilIdle<Five>([
    start('ingest', 0, ports[0]!), start('ingest', 1, options.sharedPort ? ports[0]! : ports[1]!),
    start('pipeline', 0, ports[2]!), start('pipeline', 1, ports[3]!), start('api', 0, ports[4]!)
  ])
  return { ingest: [ingest0, ingest1], pipeline: [pipeline0, pipeline1], api }
}

/** A service, and where it answers itself, past all proxies. */
export interface FaultService {
  part: SupervisedPart
  port: number
  url: string
}

export interface FaultServicesOptions {
  dataDir: string
  /** Serves as nats-server when it is not null. */
  cluster: NatsCluster | null
  /** Serves as ClickHouse when it is not null. */
  lab: ClickHouseLab | null
  /** Path of another nats-server. */
  natsServer?: string | undefined
}

/** Starts nats-server, ClickHouse and Postgres on free ports, as `npm start` does. */
export async function startFaultServices (
  { dataDir, cluster, lab, natsServer }: FaultServicesOptions, supervise: Supervise
): Promise<{ nats: FaultService, clickhouse: FaultService, postgres: FaultService }> {
  const keep = async (name: string, start: (options: ServiceOptions) => Promise<Service>): Promise<FaultService> => {
    // A service that is started again keeps the port of its first start, which its clients know.
    let address = { port: 0, url: '' }
    const part = await supervise(name, async (signal, onSpawn) => {
      const service = await start({ dataDir, port: address.port, signal, onSpawn })
      address = { port: service.port, url: service.url }
      return service
    })
    return { part, ...address }
  }
  const [nats, clickhouse, postgres] = await waitUntilIdle<[FaultService, FaultService, FaultService]>([
    cluster === null
      ? keep('nats', async (options) => await startNatsServer({ ...options, binary: natsServer }))
      : Promise.resolve({ part: cluster.nodes[0]!, port: cluster.nodes[0]!.port, url: cluster.url }),
    lab === null
      ? keep('clickhouse', async (options) =>
        await startClickHouse({ ...options, password: 'faults', analystPassword: 'analyst' }))
      : Promise.resolve({ part: lab.nodes[0]!, port: 0, url: lab.url('default') }),
    keep('postgres', async (options) => await startPostgres({ ...options, password: 'faults' }))
  ])
  return { nats, clickhouse, postgres }
}

/**
 * Like `Promise.all`, but rejects only after every promise has settled: nothing is still being started while the
 * caller cleans up.
 */
export async function waitUntilIdle<T extends readonly unknown[]> (
  promises: { readonly [K in keyof T]: Promise<T[K]> }
): Promise<T> {
  const results = await Promise.allSettled(promises)
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as unknown as T
}

interface Health {
  parts: { name: string, phase?: string }[]
}

/** A pipeline process that writes a partition of live events at the moment. */
export async function findPartitionOwner ({ pipeline }: Pick<FaultSystem, 'pipeline'>, random: Random): Promise<TierPart> {
  return await waitFor(async () => {
    const partitions = await Promise.all(pipeline.map(countLivePartitions))
    const owners = pipeline.filter((_, index) => (partitions[index] ?? 0) > 0)
    if (owners.length === 0) throw new Error('no process owns a partition')
    return pickOne(owners, random)
  }, { everyMs: 200 })
}

/** Partitions of live events that a pipeline process writes; 0 when it does not answer. */
export async function countLivePartitions ({ port }: { port: number }): Promise<number> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/_health`, { signal: AbortSignal.timeout(2000) })
    const { parts } = await response.json() as Health
    return parts.filter(({ name, phase }) => name.startsWith('partition live.') && phase === 'running').length
  } catch {
    // Not running, or paused.
    return 0
  }
}
