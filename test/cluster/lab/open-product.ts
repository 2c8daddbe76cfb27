import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startNatsServer } from '../../../embedded/nats/start-nats-server.ts'
import { startPostgres } from '../../../embedded/postgres/start-postgres.ts'
import { createFirstProject } from '../../../embedded/supervisor/create-first-project.ts'
import { startTier, type TierName } from '../../../embedded/supervisor/start-parts.ts'
import { migratePostgres } from '../../../schema/migrate/migrate-all.ts'
import { connectPostgres, type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { Client } from 'pg'
import type { Supervise, SupervisedPart } from '../../faults/system/supervise.ts'
import { withoutSettings } from '../../support/environments.ts'
import { freePort } from '../../support/local-ports.ts'

export const LAB_PROJECT_KEY = 'phc_lab_project_key'
const PERSONAL_KEY = 'phx_lab_personal_key'

/** The three tiers on a cluster of ClickHouse, each with the login that `deploy/clickhouse/users.sql` gives it. */
export interface LabProduct {
  sql: Sql
  databaseUrl: string
  ingestUrl: string
  natsUrl: string
  pipelineUrl: string
  parts: SupervisedPart[]
  /** Calls the management API. */
  call (method: string, path: string, body?: unknown): Promise<{ status: number, body: any }>
  /** Sends events; resolves when they are acknowledged. */
  send (events: readonly Record<string, unknown>[]): Promise<void>
  close (): Promise<void>
}

/** Of a busy machine with four nodes of ClickHouse. */
const STOP_TIMEOUT_MS = 9500

export interface OpenProductOptions {
  dataDir: string
  /** Read at each start of a tier, as are the addresses. Empty: a single server. */
  cluster: string
  urls: Record<'pipeline' | 'api' | 'analyst', string>
}

/** Starts NATS, Postgres and the tiers; the tables of ClickHouse exist. Its processes are ended by their supervisor. */
export async function openProduct (options: OpenProductOptions, supervise: Supervise): Promise<LabProduct> {
  const { dataDir, urls } = options
  const addresses = new Map<string, string>()
  const parts: SupervisedPart[] = []
  const keep: Supervise = async (name, start) => {
    const part = await supervise(name, start)
    parts.push(part)
    return part
  }
  await Promise.all([
    keep('nats', async (signal, onSpawn) => {
      const service = await startNatsServer({ dataDir, port: await freePort(), signal, onSpawn })
      addresses.set('nats', service.url)
      return service
    }),
    keep('postgres', async (signal, onSpawn) => {
      const service = await startPostgres({ dataDir, port: await freePort(), password: 'lab', signal, onSpawn })
      addresses.set('postgres', service.url)
      return service
    })
  ])
  const databaseUrl = addresses.get('postgres') ?? ''
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  await migratePostgres(client)
  await client.end()
  await createFirstProject({ databaseUrl, projectApiKey: LAB_PROJECT_KEY, personalApiKey: PERSONAL_KEY })
  const ports = { ingest: await freePort(), pipeline: await freePort(), api: await freePort() }
  const url = (tier: TierName): string => `http://127.0.0.1:${ports[tier]}`
  const start = async (name: TierName) => await keep(name, async (signal, onSpawn) => await startTier({
    name,
    port: ports[name],
    host: '127.0.0.1',
    dataDir: path.join(dataDir, name),
    signal,
    onSpawn,
    stopTimeoutMs: STOP_TIMEOUT_MS,
    env: {
      ...withoutSettings(process.env),
      NATS_URL: addresses.get('nats'),
      DATABASE_URL: databaseUrl,
      CLICKHOUSE_URL: name === 'api' ? urls.api : urls.pipeline,
      MILLRACE_CLICKHOUSE_CLUSTER: options.cluster,
      MILLRACE_DATA_DIR: path.join(dataDir, name),
      MILLRACE_PORT: String(ports.ingest),
      MILLRACE_API_PORT: String(ports.api),
      MILLRACE_PIPELINE_PORT: String(ports.pipeline),
      MILLRACE_API_URL: url('api'),
      MILLRACE_MANAGEMENT_RATE_LIMIT: '100000',
      ...name === 'api' ? { MILLRACE_CLICKHOUSE_ANALYST_URL: urls.analyst } : {}
    }
  }))
  await Promise.all([start('pipeline'), start('api')])
  await start('ingest')
  const authorization = `Bearer ${PERSONAL_KEY}`
  const sql = connectPostgres({ url: databaseUrl, max: 2 })
  return {
    sql,
    databaseUrl,
    ingestUrl: url('ingest'),
    natsUrl: addresses.get('nats') ?? '',
    pipelineUrl: url('pipeline'),
    parts,
    async call (method, path, body) {
      const response = await fetch(new URL(path, url('api')), {
        method,
        signal: AbortSignal.timeout(120_000),
        ...body === undefined
          ? { headers: { authorization } }
          : { headers: { authorization, 'content-type': 'application/json' }, body: JSON.stringify(body) }
      })
      const text = await response.text()
      const isJson = /^application\/json\b/.test(response.headers.get('content-type') ?? '')
      return { status: response.status, body: isJson ? JSON.parse(text) : text }
    },
    async send (batch) {
      const response = await fetch(new URL('/batch/', url('ingest')), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ api_key: LAB_PROJECT_KEY, batch })
      })
      if (response.status !== 200) throw new Error(`ingest answered ${response.status}: ${await response.text()}`)
      await response.arrayBuffer()
    },
    async close () { await sql.end({ timeout: 1 }) }
  }
}

const EVENTS = ['visited', 'signed up', 'paid']
const BATCH = 50

/** The events that the walk over the cluster sends, and how many of them ingest confirmed. */
export interface Traffic {
  /** Events that ingest confirmed and nobody deleted. */
  acknowledged: number
  send (count: number): Promise<void>
  /** Sends until stopped. */
  start (): { stop: () => Promise<void> }
}

export function createTraffic (product: LabProduct): Traffic {
  let index = 0
  const traffic: Traffic = {
    acknowledged: 0,
    async send (count) {
      for (let left = count; left > 0; left -= BATCH) {
        const batch = Array.from({ length: Math.min(BATCH, left) }, () => createEvent(index++))
        await product.send(batch)
        traffic.acknowledged += batch.length
      }
    },
    start () {
      const stopped = new AbortController()
      const sending = (async () => {
        while (!stopped.signal.aborted) {
          await traffic.send(BATCH)
          await delay(50)
        }
      })()
      return {
        async stop () {
          stopped.abort()
          await sending
        }
      }
    }
  }
  return traffic
}

function createEvent (index: number): Record<string, unknown> {
  const name = index % 5 === 0 ? { $set: { plan: index % 2 === 0 ? 'free' : 'paid' } } : {}
  return {
    event: EVENTS[index % EVENTS.length],
    distinct_id: `person ${index % 200}`,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
    properties: { index, amount: index % 17, ...name }
  }
}
