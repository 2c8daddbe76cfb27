import { loadSettings } from '../platform/load-settings.ts'

/** What the API process reads from its environment. */
export interface ApiConfig {
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
export function loadApiConfig (env: NodeJS.ProcessEnv): ApiConfig {
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
