import { connectClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { openKeys } from '../platform/keys/read-keys.ts'
import { loadSettings } from '../platform/load-settings.ts'
import { createLogger } from '../platform/logger.ts'
import { createMetrics } from '../platform/metrics.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { onShutdown, runProcess } from '../platform/process-lifecycle.ts'
import { buildApiApp } from './app.ts'
import { createNatsOnDemand } from './dead-letters/nats-on-demand.ts'
import { createDefinitionCache } from './flag-endpoints/definition-cache.ts'

/** Longest wait of a request with an unknown key: flag clients give up after 3 s. */
const KEY_WAIT_MS = 1000

runProcess('api', async () => {
  const config = loadApiConfig(process.env)
  const logger = createLogger({ component: 'api', level: config.logLevel })
  // A request that waits for a database that hangs is answered 503, well before its client gives up.
  const sql = connectPostgres({ url: config.databaseUrl, logger, statementTimeoutMs: 10_000 })
  const clickhouse = connectClickHouse({ url: config.clickhouseUrl })
  const nats = createNatsOnDemand({ url: config.natsUrl, logger })
  const metrics = createMetrics('api')

  const now = Date.now
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl: config.databaseUrl, withOwners: true, maxWaitMs: KEY_WAIT_MS, now, logger, metrics
  })
  const definitions = createDefinitionCache({
    sql, databaseUrl: config.databaseUrl, logger, metrics
  })

  // Definitions that were never read are as old as the process: an alert on their age must see them.
  const startedAt = performance.now()
  metrics.gaugeFrom('flag_definitions_age_seconds',
    'Since the definitions of flags were last known to be current; since the start when they were never read.',
    () => (definitions.ageMs() ?? performance.now() - startedAt) / 1000)

  let shuttingDown = false
  const app = await buildApiApp({
    logger, sql, clickhouse, nats, keys, metrics, definitions, now,
    cluster: config.clickhouseCluster,
    publicUrl: config.publicUrl,
    managementRateLimit: config.managementRateLimit,
    isShuttingDown: () => shuttingDown
  })
  const address = await app.listen({ host: config.host, port: config.port })
  logger.info({ address }, 'api is listening')

  onShutdown(logger, [
    { name: 'readiness', run: () => { shuttingDown = true } },
    { name: 'http', run: () => app.close() },
    { name: 'keys', run: closeKeys },
    { name: 'flag definitions', run: () => definitions.stop() },
    { name: 'nats', run: () => nats.close() },
    { name: 'clickhouse', run: () => clickhouse.close() },
    { name: 'postgres', run: () => sql.end({ timeout: 2 }) }
  ])
})

/** What the API process reads from its environment. */
interface ApiConfig {
  host: string
  port: number
  logLevel: string
  databaseUrl: string
  clickhouseUrl: string
  /** Empty: one node. */
  clickhouseCluster: string
  /** For dead letters; everything else is served without. */
  natsUrl: string
  /** Base of absolute links; empty takes the address of each request. */
  publicUrl: string
  /** Requests per minute and personal key on management; 0 is no limit. */
  managementRateLimit: number
}

/** @throws {SettingsError} listing every problem. */
function loadApiConfig (env: NodeJS.ProcessEnv): ApiConfig {
  const settings = loadSettings(env, [
    'MILLRACE_HOST', 'MILLRACE_API_PORT', 'MILLRACE_LOG_LEVEL', 'DATABASE_URL', 'CLICKHOUSE_URL', 'NATS_URL',
    'MILLRACE_PUBLIC_URL', 'MILLRACE_MANAGEMENT_RATE_LIMIT', 'MILLRACE_CLICKHOUSE_CLUSTER'
  ])
  return {
    host: settings.MILLRACE_HOST,
    port: settings.MILLRACE_API_PORT,
    logLevel: settings.MILLRACE_LOG_LEVEL,
    databaseUrl: settings.DATABASE_URL,
    clickhouseUrl: settings.CLICKHOUSE_URL,
    clickhouseCluster: settings.MILLRACE_CLICKHOUSE_CLUSTER,
    natsUrl: settings.NATS_URL,
    publicUrl: settings.MILLRACE_PUBLIC_URL,
    managementRateLimit: settings.MILLRACE_MANAGEMENT_RATE_LIMIT
  }
}
