import { setTimeout as sleep } from 'node:timers/promises'
import { type ClickHouse, LOCAL_DATABASE, systemTable, systemTableOfShards } from '../../platform/clickhouse/connect-clickhouse.ts'
import { ANSWERING_NODES } from '../../schema/migrate/clickhouse-topology.ts'
import type { HealthReport } from '../../platform/health-and-readiness.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { Status } from './status-schema.ts'

export type TierName = 'ingest' | 'pipeline' | 'api'

/** The address of a process that is known not to run: nobody is asked. */
export const NOT_RUNNING = ''

/** Addresses of the processes of each tier. */
export type TierUrls = Record<TierName, readonly string[]>

/** Health and metrics of one process. */
export interface TierReading {
  tier: TierName
  /** Empty: of a stack that does not run (`NOT_RUNNING`). */
  url: string
  /** Monotonic milliseconds of the reading. */
  readAt: number
  /** null: the process does not answer. */
  health: HealthReport | null
  metrics: MetricSamples
}

/** The metrics of one process. */
export type MetricSamples = ReturnType<typeof parseMetrics>

export type StoresReading = Status['stores']
type Watermark = NonNullable<StoresReading['watermark']>

export interface StoreConnections {
  nats: () => Promise<NatsConnection>
  clickhouse: () => Promise<ClickHouse>
  /** Name of the ClickHouse cluster; absent or empty: one node. */
  cluster?: string
  postgres: () => Promise<Sql>
}

const TIER_TIMEOUT_MS = 4000

const STORE_TIMEOUT_MS = 3000

/** Each shard counts once; the least free space is that of any node that answers. */
function clickHouseQuery (cluster: string): string {
  const parts = systemTableOfShards(cluster, 'parts')
  return `SELECT version() AS version,
    (SELECT sum(rows) FROM ${parts} WHERE active AND database = ${LOCAL_DATABASE} AND table = 'events') AS events,
    (SELECT sum(bytes_on_disk) FROM ${parts} WHERE active AND database = ${LOCAL_DATABASE}) AS bytes,
    (SELECT min(free_space) FROM ${systemTable(cluster, 'disks')}) AS freeBytes
    SETTINGS ${ANSWERING_NODES}`
}

const WATERMARK_QUERY = `
  SELECT formatDateTime(complete_through, '%Y-%m-%dT%H:%i:%S.%fZ', 'UTC') AS completeThrough, held_by AS heldBy
  FROM watermarks WHERE project_id = 0 AND complete_through > 0`

/** Reads health and metrics of a process. Never rejects: `health` is null when it does not answer. */
export async function readTier (tier: TierName, url: string): Promise<TierReading> {
  const readAt = performance.now()
  if (url === NOT_RUNNING) return { tier, url, readAt, health: null, metrics: parseMetrics('') }
  try {
    const [health, metrics] = await Promise.all([ask(url, '/_health'), ask(url, '/metrics')])
    return { tier, url, readAt, health: JSON.parse(health) as HealthReport, metrics: parseMetrics(metrics) }
  } catch {
    return { tier, url, readAt, health: null, metrics: parseMetrics('') }
  }
}

async function ask (url: string, path: string): Promise<string> {
  const response = await fetch(new URL(path, url), { signal: AbortSignal.timeout(TIER_TIMEOUT_MS) })
  // Not only 200: a 503 of /_health has a report as well.
  return await response.text()
}

/** Parses the text of `/metrics`; skips lines that are not samples. */
export function parseMetrics (text: string) {
  const samples = text.split('\n').map(parseLine).filter((sample) => sample !== null)
  const names = new Set(samples.map(({ name }) => name))
  return {
    /** Sum over all samples of the name whose labels match; 0 without samples. */
    sum: (name: string, labels: Record<string, string> = {}): number => samples
      .filter((sample) => sample.name === name)
      .filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
      .reduce((sum, { value }) => sum + value, 0),
    /** Sums by the values of one label. */
    by (name: string, label: string): Map<string, number> {
      const values = new Map<string, number>()
      for (const sample of samples) {
        const key = sample.labels[label]
        if (sample.name === name && key !== undefined) values.set(key, (values.get(key) ?? 0) + sample.value)
      }
      return values
    },
    names: (): Set<string> => names
  }
}

function parseLine (line: string): { name: string, labels: Record<string, string>, value: number } | null {
  const [, name, labelText = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
  if (name === undefined) return null
  const labels = Object.fromEntries([...labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
    .map(([, key, text = '']) => [key, text.replaceAll(/\\(.)/g, (_, c: string) => c === 'n' ? '\n' : c)]))
  return { name, labels, value: Number(value) }
}

/** Returns a function that reads version and size of the services, over connections that it reuses. Never rejects. */
export function createReadStores (connections: StoreConnections): () => Promise<StoresReading> {
  const open: Partial<{ [K in 'nats' | 'clickhouse' | 'postgres']: ReturnType<StoreConnections[K]> }> = {}
  return async () => {
    const [nats, clickhouse, postgres, watermark] = await Promise.all([
      orNull(async () => {
        const connection = await (open.nats ??= connections.nats())
        await connection.flush()
        return { version: connection.info?.version ?? '' }
      }, () => { delete open.nats }),
      orNull(async () => {
        const client = await (open.clickhouse ??= connections.clickhouse())
        const [row] = await (await client.query({ query: clickHouseQuery(connections.cluster ?? ''), format: 'JSONEachRow' })).json<Record<string, string>>()
        const { version = '', events, bytes, freeBytes } = row ?? {}
        return { version, events: Number(events), bytes: Number(bytes), freeBytes: Number(freeBytes) }
      }),
      orNull(async () => {
        const sql = await (open.postgres ??= connections.postgres())
        const [row] = await sql<[{ version: string, bytes: number }]>`
          SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS bytes`
        return { ...row }
      }),
      orNull(async () => {
        const client = await (open.clickhouse ??= connections.clickhouse())
        const [row] = await (await client.query({ query: WATERMARK_QUERY, format: 'JSONEachRow' })).json<Watermark>()
        return row ?? null
      })
    ])
    return { nats, clickhouse, postgres, watermark }
  }
}

async function orNull<T> (read: () => Promise<T>, forget?: () => void): Promise<T | null> {
  return await Promise.race([read(), sleep(STORE_TIMEOUT_MS, null, { ref: false })]).catch(() => {
    forget?.()
    return null
  })
}
