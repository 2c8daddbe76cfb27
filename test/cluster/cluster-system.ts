import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import { jetstreamManager } from '@nats-io/jetstream'
import { createFirstProject } from '../../embedded/supervisor/create-first-project.ts'
import { startTier, type TierName } from '../../embedded/supervisor/start-parts.ts'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type NatsCluster, startNatsCluster } from '../faults/system/nats-cluster.ts'
import { supervise, type Supervise, type SupervisedPart } from '../faults/system/supervise.ts'
import { createTestClickHouse, createTestPostgres } from '../support/test-stores.ts'
import { freePort } from '../support/local-ports.ts'
import type { TestContext } from '../support/test-context.ts'
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts'
import { withoutSettings } from '../support/environments.ts'
import { auditCounts, auditEvents } from '../faults/audit/audit-events.ts'
import type { LoadLedger } from '../faults/load-ledger.ts'
import { waitUntilDrained } from '../faults/audit/wait-until-recovered.ts'

export const CLUSTER_PROJECT_KEY = 'phc_cluster_project_key'
export const CLUSTER_PERSONAL_KEY = 'phx_cluster_personal_key'

export interface TierProcess extends SupervisedPart {
  readonly port: number
}

/** Several processes of each tier, on one nats-server or a cluster of three. */
interface ClusterSystem {
  nats: NatsCluster
  parts: readonly SupervisedPart[]
  ingest: readonly TierProcess[]
  pipeline: readonly TierProcess[]
  api: readonly TierProcess[]
  /** Ends that no test caused. */
  surprises: string[]
  connection: NatsConnection
  sql: Sql
  select <T>(query: string, params?: Record<string, unknown>): Promise<T[]>
  /** Starts one more process of a tier. */
  start (name: TierName): Promise<TierProcess>
  /** Asks a process to end; nobody starts it again. */
  end (part: SupervisedPart): Promise<void>
}

export interface ClusterSystemOptions {
  natsNodes: 1 | 3
  partitions: number
  ingest?: number
  pipeline?: number
  api?: number
}

/** As long as Ctrl-C may take, in milliseconds. */
const STOP_TIMEOUT_MS = 9500

/** Starts it, on the Postgres and ClickHouse of the test run; it ends with the test. */
export async function startClusterSystem (t: TestContext, options: ClusterSystemOptions): Promise<ClusterSystem> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-cluster-'))
  const parts: SupervisedPart[] = []
  const surprises: string[] = []
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const giveUp = new AbortController()
  // Before the teardown below, which comes first: a database that is given back has no writers any more.
  const [postgres, clickhouse] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
  let closeCluster = async (): Promise<void> => {}
  // Tiers before the servers that they use.
  t.teardown(async () => {
    const servers = parts.filter(({ name }) => name.startsWith('nats'))
    await Promise.all(parts.filter((part) => !servers.includes(part)).map((part) => part.stop()))
    await Promise.all(servers.map((part) => part.stop()))
    await closeCluster()
  })
  const keep: Supervise = async (name, start) => {
    const part = await supervise({
      name, start, giveUp: giveUp.signal, onSurprise: (what) => surprises.push(`${what}: ${readLogEnd(dataDir, name)}`)
    })
    parts.push(part)
    return part
  }

  const nats = await startNatsCluster({ dataDir, nodes: options.natsNodes }, keep)
  closeCluster = nats.close
  await createFirstProject({
    databaseUrl: postgres.url, projectApiKey: CLUSTER_PROJECT_KEY, personalApiKey: CLUSTER_PERSONAL_KEY
  })
  const connection = await connectNats({
    url: nats.url, name: 'audit', logger: pino({ level: 'silent' }), waitForServer: true
  })
  t.teardown(async () => { await connection.close() })

  let started = 0
  const start = async (name: TierName, env: Record<string, string> = {}): Promise<TierProcess> => {
    const folder = path.join(dataDir, `${name}-${started++}`)
    const port = await freePort()
    const portSetting = { ingest: 'MILLRACE_PORT', pipeline: 'MILLRACE_PIPELINE_PORT', api: 'MILLRACE_API_PORT' }[name]
    const part = await keep(path.basename(folder), async (signal, onSpawn) => await startTier({
      name, port, host: '127.0.0.1', dataDir: folder, signal, onSpawn, stopTimeoutMs: STOP_TIMEOUT_MS,
      env: {
        ...withoutSettings(process.env),
        NATS_URL: nats.url,
        CLICKHOUSE_URL: clickhouse.url,
        DATABASE_URL: postgres.url,
        MILLRACE_DATA_DIR: folder,
        MILLRACE_STREAM_REPLICAS: String(nats.nodes.length),
        MILLRACE_STREAM_MAX_BYTES: '268435456',
        MILLRACE_PARTITIONS: String(options.partitions),
        [portSetting]: String(port),
        ...env
      }
    }))
    return Object.assign(part, { port })
  }
  const startSome = async (name: TierName, count = 0): Promise<TierProcess[]> =>
    await Promise.all(Array.from({ length: count }, async () => await start(name)))
  // Ready once there is somebody to ask for streams.
  await waitFor(async () => (await connection.request('$JS.API.INFO')).string().includes('"streams"'))
  const [pipeline, api] = await Promise.all([startSome('pipeline', options.pipeline), startSome('api', options.api)])
  const ingest = await Promise.all(Array.from({ length: options.ingest ?? 0 }, async (_, index) => {
    const { port } = api[index % api.length] ?? { port: 1 }
    return await start('ingest', { MILLRACE_API_URL: `http://127.0.0.1:${port}` })
  }))
  return {
    nats, parts, ingest, pipeline, api, surprises, connection, sql: postgres.sql, start,
    async end (part) {
      parts.splice(parts.indexOf(part), 1)
      await part.stop()
    },
    async select<T> (query: string, params: Record<string, unknown> = {}) {
      return await (await clickhouse.client.query({ query, query_params: params, format: 'JSONEachRow' })).json<T>()
    }
  }
}

/** What a process wrote last, with the reason for its end. */
function readLogEnd (dataDir: string, part: string): string {
  const log = part.startsWith('nats') ? 'nats-server' : part.replace(/-\d+$/, '')
  try {
    return readFileSync(path.join(dataDir, part, 'logs', `${log}.log`), 'utf8').slice(-2000)
  } catch (error) {
    return String(error)
  }
}

/** The state of a replicated stream: who leads it, and whether the others follow. */
export interface StreamReplicas {
  leader: string
  followers: { name: string, current: boolean }[]
}

/** @throws while the stream has no leader, or none that answers in time. */
export async function readReplicas (
  connection: NatsConnection, stream: string, timeoutMs = 5000
): Promise<StreamReplicas> {
  const manager = await jetstreamManager(connection, { timeout: timeoutMs, checkAPI: false })
  const { cluster } = await manager.streams.info(stream)
  if (cluster?.leader === undefined) throw new Error(`stream ${stream} has no leader`)
  return { leader: cluster.leader, followers: (cluster.replicas ?? []).map(({ name, current }) => ({ name, current })) }
}

/** Fails with each difference that `auditCluster` finds, and each process that ended by itself. */
export async function checkCluster (t: Pick<Test, 'same'>, system: ClusterSystem, ledger: LoadLedger): Promise<void> {
  const differences = await auditCluster(system, ledger)
  t.same(differences, [], ['differences', ...differences].join('; '))
  t.same(system.surprises, [], ['ends that no test caused', ...system.surprises].join('; '))
}

/**
 * Waits until everything is stored, and compares it with what the clients know: uuid by uuid, then volumes, properties,
 * definitions and persons.
 *
 * @returns what differs, one line each.
 */
async function auditCluster (system: ClusterSystem, ledger: LoadLedger): Promise<string[]> {
  await waitUntilDrained(system, { timeoutMs: PATIENCE_MS, signal: new AbortController().signal })
  const { lost, duplicated, deadLettered, strangers, examples } = await auditEvents(system, ledger)
  const sum = (counts: ReadonlyMap<unknown, number>): number => [...counts.values()].reduce((a, b) => a + b, 0)
  let differences: string[] = []
  await waitFor(async () => {
    differences = await auditCounts(system)
    return differences.length === 0
  }, { everyMs: 250 }).catch(() => {})
  return [
    ...Object.entries({ lost: sum(lost), duplicated: sum(duplicated), deadLettered: sum(deadLettered), strangers })
      .filter(([, count]) => count > 0).map(([what, count]) => `${count} events ${what}`),
    ...examples,
    ...differences
  ]
}
