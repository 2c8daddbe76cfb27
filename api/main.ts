import { setTimeout as sleep } from 'node:timers/promises'
import { connectClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { openGeoipFile } from '../platform/geoip-file.ts'
import { openKeys } from '../platform/directory/open-keys.ts'
import { readProjects } from '../platform/directory/read-keys.ts'
import { loadSettings } from '../platform/load-settings.ts'
import type { SettingValues } from '../platform/settings.ts'
import { runAtIntervals } from '../platform/intervals.ts'
import { createLogger } from '../platform/logger.ts'
import { createMetrics } from '../platform/metrics.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { refuseNewerDatabase } from '../platform/postgres/refuse-newer-database.ts'
import { onShutdown, runProcess } from '../platform/process-lifecycle.ts'
import { createPoll, createStatusPoll } from './status/poll-status.ts'
import { buildApiApp } from './app.ts'
import { createImportRunner } from './events/start-import.ts'
import { readRoleRules } from './people/login-roles.ts'
import type { ExternalLogin } from './people/external-login.ts'
import { createProvider } from './people/oidc.ts'
import { trimRecord } from './people/record-routes.ts'
import { createNatsOnDemand } from './events/dead-letters/nats-on-demand.ts'
import { createDefinitionCache } from './flags/endpoints/definition-cache.ts'

/** Maximum wait of a request with an unknown key, in milliseconds: SDKs give up on flags after 3 s. */
const KEY_WAIT_MS = 1000

const SETTINGS = [
  'MILLRACE_HOST', 'MILLRACE_API_PORT', 'MILLRACE_LOG_LEVEL', 'DATABASE_URL', 'CLICKHOUSE_URL', 'NATS_URL',
  'MILLRACE_PUBLIC_URL', 'MILLRACE_MANAGEMENT_RATE_LIMIT', 'MILLRACE_CLICKHOUSE_CLUSTER', 'MILLRACE_PORT',
  'MILLRACE_PIPELINE_PORT', 'MILLRACE_INGEST_URLS', 'MILLRACE_PIPELINE_URLS', 'MILLRACE_CLICKHOUSE_ANALYST_URL',
  'MILLRACE_GEOIP_PATH', 'MILLRACE_IMPORT_FOLDER', 'MILLRACE_RECORD_DAYS', 'MILLRACE_BACKUP_FOLDER',
  'MILLRACE_OIDC_ISSUER', 'MILLRACE_OIDC_CLIENT_ID', 'MILLRACE_OIDC_CLIENT_SECRET', 'MILLRACE_OIDC_SCOPES',
  'MILLRACE_OIDC_ROLE_CLAIM', 'MILLRACE_LOGIN_ROLES', 'MILLRACE_PROXY_LOGIN'
] as const

runProcess('api', async () => {
  const settings = loadSettings(process.env, SETTINGS)
  const { DATABASE_URL: databaseUrl, MILLRACE_CLICKHOUSE_CLUSTER: cluster, MILLRACE_GEOIP_PATH: geoipPath } = settings
  const { MILLRACE_HOST: host, MILLRACE_API_PORT: port } = settings
  const logger = createLogger({ component: 'api', level: settings.MILLRACE_LOG_LEVEL })
  // When Postgres hangs, requests get 503 well before their clients give up.
  const sql = connectPostgres({ url: databaseUrl, logger, statementTimeoutMs: 10_000 })
  await refuseNewerDatabase(sql, logger)
  const clickhouse = connectClickHouse({ url: settings.CLICKHOUSE_URL, cluster })
  const nats = createNatsOnDemand({ url: settings.NATS_URL, logger })
  const metrics = createMetrics('api')

  const now = Date.now
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl, withOwners: true, readProjects, maxWaitMs: KEY_WAIT_MS, now, logger, metrics
  })
  const definitions = createDefinitionCache({ sql, databaseUrl, logger, metrics })

  // Before the first read their age is that of the process, so that an alert on the age fires.
  const startedAt = performance.now()
  metrics.gaugeFrom('flag_definitions_age_seconds',
    'Seconds since flag definitions were read, or the process started.',
    () => (definitions.ageMs() ?? performance.now() - startedAt) / 1000)

  const ingestUrls = readUrls(settings.MILLRACE_INGEST_URLS, settings.MILLRACE_PORT)
  const status = createStatusPoll({
    poll: createPoll({
      urls: {
        ingest: ingestUrls,
        pipeline: readUrls(settings.MILLRACE_PIPELINE_URLS, settings.MILLRACE_PIPELINE_PORT),
        api: [ownUrl(host, port)]
      },
      connections: {
        nats: async () => await nats.get(), clickhouse: async () => clickhouse, postgres: async () => sql, cluster
      },
      now
    }),
    sleep
  })

  const imports = createImportRunner({ sql, logger, now, folder: settings.MILLRACE_IMPORT_FOLDER, url: ingestUrls[0] ?? '' })
  const geoip = await openGeoipFile(geoipPath, logger)
  let shuttingDown = false
  const app = await buildApiApp({
    logger, sql, clickhouse, cluster, nats, keys, metrics, definitions, now, status,
    ...geoipPath === '' ? {} : { locate: geoip.locate, parts: geoip.parts },
    analystUrl: settings.MILLRACE_CLICKHOUSE_ANALYST_URL,
    imports,
    backupFolder: settings.MILLRACE_BACKUP_FOLDER,
    publicUrl: settings.MILLRACE_PUBLIC_URL,
    managementRateLimit: settings.MILLRACE_MANAGEMENT_RATE_LIMIT,
    isShuttingDown: () => shuttingDown,
    login: readLogin(settings)
  })
  const address = await app.listen({ host, port })
  logger.info({ address }, 'api is listening')

  const record = runAtIntervals({
    everyMs: 3_600_000, logger, failure: 'could not delete old lines of the record; trying again in an hour',
    run: async () => await trimRecord(sql, { days: settings.MILLRACE_RECORD_DAYS, now: now() })
  })

  onShutdown(logger, [
    { name: 'record', run: () => record.stop() },
    { name: 'readiness', run: () => { shuttingDown = true } },
    // Its start may be what a request waits for.
    { name: 'imports', run: () => imports.close() },
    { name: 'http', run: () => app.close() },
    { name: 'places', run: () => geoip.close() },
    { name: 'keys', run: closeKeys },
    { name: 'flag definitions', run: () => definitions.stop() },
    { name: 'nats', run: () => nats.close() },
    { name: 'clickhouse', run: () => clickhouse.close() },
    { name: 'postgres', run: () => sql.end({ timeout: 2 }) }
  ])
})

type LoginSettings = SettingValues<'MILLRACE_OIDC_ISSUER' | 'MILLRACE_OIDC_CLIENT_ID' | 'MILLRACE_OIDC_CLIENT_SECRET' |
  'MILLRACE_OIDC_SCOPES' | 'MILLRACE_OIDC_ROLE_CLAIM' | 'MILLRACE_LOGIN_ROLES' | 'MILLRACE_PROXY_LOGIN'>

function readLogin (settings: LoginSettings): ExternalLogin {
  const issuer = settings.MILLRACE_OIDC_ISSUER
  return {
    provider: issuer === ''
      ? null
      : createProvider({
        issuer, clientId: settings.MILLRACE_OIDC_CLIENT_ID, clientSecret: settings.MILLRACE_OIDC_CLIENT_SECRET,
        scopes: settings.MILLRACE_OIDC_SCOPES, claim: settings.MILLRACE_OIDC_ROLE_CLAIM
      }),
    trustsProxy: settings.MILLRACE_PROXY_LOGIN === 'on',
    readRoles: readRoleRules(settings.MILLRACE_LOGIN_ROLES)
  }
}

/** The URLs of a setting, separated by commas; the process on this machine when it is empty. */
function readUrls (text: string, port: number): string[] {
  const urls = text.split(',').map((url) => url.trim()).filter((url) => url !== '')
  return urls.length === 0 ? [`http://127.0.0.1:${port}`] : urls
}

function ownUrl (host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}
