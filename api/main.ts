import { setTimeout as sleep } from 'node:timers/promises'
import { connectClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { openGeoipFile } from '../platform/geoip-file.ts'
import { openKeys } from '../platform/directory/open-keys.ts'
import { loadSettings } from '../platform/load-settings.ts'
import { createLogger } from '../platform/logger.ts'
import { createMetrics } from '../platform/metrics.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { refuseNewerDatabase } from '../platform/postgres/refuse-newer-database.ts'
import { onShutdown, runProcess } from '../platform/process-lifecycle.ts'
import { createPoll, createStatusPoll } from './status/poll-status.ts'
import { buildApiApp } from './app.ts'
import { createNatsOnDemand } from './events/dead-letters/nats-on-demand.ts'
import { createDefinitionCache } from './flags/endpoints/definition-cache.ts'

/** Maximum wait of a request with an unknown key, in milliseconds: SDKs give up on flags after 3 s. */
const KEY_WAIT_MS = 1000

runProcess('api', async () => {
  const config = loadApiConfig(process.env)
  const logger = createLogger({ component: 'api', level: config.logLevel })
  // When Postgres hangs, requests get 503 well before their clients give up.
  const sql = connectPostgres({ url: config.databaseUrl, logger, statementTimeoutMs: 10_000 })
  await refuseNewerDatabase(sql, logger)
  const clickhouse = connectClickHouse({ url: config.clickhouseUrl, cluster: config.clickhouseCluster })
  const nats = createNatsOnDemand({ url: config.natsUrl, logger })
  const metrics = createMetrics('api')

  const now = Date.now
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl: config.databaseUrl, withOwners: true, maxWaitMs: KEY_WAIT_MS, now, logger, metrics
  })
  const definitions = createDefinitionCache({
    sql, databaseUrl: config.databaseUrl, logger, metrics
  })

  // Before the first read their age is that of the process, so that an alert on the age fires.
  const startedAt = performance.now()
  metrics.gaugeFrom('flag_definitions_age_seconds',
    'Seconds since flag definitions were last read; since the start of the process before the first read.',
    () => (definitions.ageMs() ?? performance.now() - startedAt) / 1000)

  const status = createStatusPoll({
    poll: createPoll({
      urls: { ingest: config.ingestUrls, pipeline: config.pipelineUrls, api: [ownUrl(config)] },
      connections: {
        nats: async () => await nats.get(), clickhouse: async () => clickhouse, postgres: async () => sql,
        cluster: config.clickhouseCluster
      },
      now
    }),
    sleep
  })

  const geoip = await openGeoipFile(config.geoipPath, logger)
  let shuttingDown = false
  const app = await buildApiApp({
    logger, sql, clickhouse, nats, keys, metrics, definitions, now, status,
    ...config.geoipPath === '' ? {} : { locate: geoip.locate },
    cluster: config.clickhouseCluster,
    analystUrl: config.analystUrl,
    publicUrl: config.publicUrl,
    managementRateLimit: config.managementRateLimit,
    isShuttingDown: () => shuttingDown
  })
  const address = await app.listen({ host: config.host, port: config.port })
  logger.info({ address }, 'api is listening')

  onShutdown(logger, [
    { name: 'readiness', run: () => { shuttingDown = true } },
    { name: 'http', run: () => app.close() },
    { name: 'places', run: () => geoip.close() },
    { name: 'keys', run: closeKeys },
    { name: 'flag definitions', run: () => definitions.stop() },
    { name: 'nats', run: () => nats.close() },
    { name: 'clickhouse', run: () => clickhouse.close() },
    { name: 'postgres', run: () => sql.end({ timeout: 2 }) }
  ])
})

/** Settings of the API process. */
interface ApiConfig {
  host: string
  port: number
  logLevel: string
  databaseUrl: string
  clickhouseUrl: string
  /** With the login of analysts; empty: the console has no SQL. */
  analystUrl: string
  /** Empty for a single node. */
  clickhouseCluster: string
  /** Processes whose health the console shows. */
  ingestUrls: string[]
  pipelineUrls: string[]
  /** For dead letters; everything else works without NATS. */
  natsUrl: string
  /** File of places; empty: none. */
  geoipPath: string
  /** Base of absolute links; when empty, the address of the request. */
  publicUrl: string
  /** Maximum management requests per minute and personal key; 0 for no limit. */
  managementRateLimit: number
}

/** @throws {SettingsError} listing every problem. */
function loadApiConfig (env: NodeJS.ProcessEnv): ApiConfig {
  const settings = loadSettings(env, [
    'MILLRACE_HOST', 'MILLRACE_API_PORT', 'MILLRACE_LOG_LEVEL', 'DATABASE_URL', 'CLICKHOUSE_URL', 'NATS_URL',
    'MILLRACE_PUBLIC_URL', 'MILLRACE_MANAGEMENT_RATE_LIMIT', 'MILLRACE_CLICKHOUSE_CLUSTER', 'MILLRACE_PORT',
    'MILLRACE_PIPELINE_PORT', 'MILLRACE_INGEST_URLS', 'MILLRACE_PIPELINE_URLS', 'MILLRACE_CLICKHOUSE_ANALYST_URL',
    'MILLRACE_GEOIP_PATH'
  ])
  return {
    host: settings.MILLRACE_HOST,
    port: settings.MILLRACE_API_PORT,
    logLevel: settings.MILLRACE_LOG_LEVEL,
    databaseUrl: settings.DATABASE_URL,
    clickhouseUrl: settings.CLICKHOUSE_URL,
    analystUrl: settings.MILLRACE_CLICKHOUSE_ANALYST_URL,
    clickhouseCluster: settings.MILLRACE_CLICKHOUSE_CLUSTER,
    ingestUrls: readUrls(settings.MILLRACE_INGEST_URLS, settings.MILLRACE_PORT),
    pipelineUrls: readUrls(settings.MILLRACE_PIPELINE_URLS, settings.MILLRACE_PIPELINE_PORT),
    natsUrl: settings.NATS_URL,
    geoipPath: settings.MILLRACE_GEOIP_PATH,
    publicUrl: settings.MILLRACE_PUBLIC_URL,
    managementRateLimit: settings.MILLRACE_MANAGEMENT_RATE_LIMIT
  }
}

/** The URLs of a setting, separated by commas; the process on this machine when it is empty. */
function readUrls (text: string, port: number): string[] {
  const urls = text.split(',').map((url) => url.trim()).filter((url) => url !== '')
  return urls.length === 0 ? [`http://127.0.0.1:${port}`] : urls
}

/** Where this process reaches itself. */
function ownUrl ({ host, port }: ApiConfig): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}
