import { loadSettings } from '../platform/load-settings.ts'

/** Settings of an ingest process, from its environment; see `platform/settings.ts` for units and reasons. */
export type IngestConfig = ReturnType<typeof loadIngestConfig>

/** @throws {SettingsError} listing every problem of the environment. */
export function loadIngestConfig (env: NodeJS.ProcessEnv) {
  const settings = loadSettings(env, [
    'MILLRACE_HOST', 'MILLRACE_PORT', 'MILLRACE_API_URL', 'MILLRACE_LOG_LEVEL', 'NATS_URL',
    'DATABASE_URL',
    'MILLRACE_PARTITIONS', 'MILLRACE_STREAM_REPLICAS', 'MILLRACE_STREAM_MAX_BYTES', 'MILLRACE_DEAD_LETTER_MAX_BYTES',
    'MILLRACE_GROUP_COMMIT_MS', 'MILLRACE_INGEST_RATE_LIMIT', 'MILLRACE_MAX_CONNECTIONS', 'MILLRACE_TRUSTED_PROXIES',
    'MILLRACE_MAX_BODY_BYTES', 'MILLRACE_MAX_DECOMPRESSED_BYTES',
    'MILLRACE_GEOIP_PATH', 'MILLRACE_DATA_DIR', 'MILLRACE_SPOOL_MAX_BYTES',
    'MILLRACE_MAX_NEW_EVENT_NAMES', 'MILLRACE_MAX_NEW_PROPERTIES', 'MILLRACE_MAX_NEW_EVENT_PROPERTIES'
  ])
  return {
    http: { host: settings.MILLRACE_HOST, port: settings.MILLRACE_PORT },
    trustedProxies: settings.MILLRACE_TRUSTED_PROXIES,
    apiUrl: settings.MILLRACE_API_URL,
    logLevel: settings.MILLRACE_LOG_LEVEL,
    natsUrl: settings.NATS_URL,
    databaseUrl: settings.DATABASE_URL,
    streams: {
      partitions: settings.MILLRACE_PARTITIONS,
      replicas: settings.MILLRACE_STREAM_REPLICAS,
      eventsMaxBytes: settings.MILLRACE_STREAM_MAX_BYTES,
      deadLetterMaxBytes: settings.MILLRACE_DEAD_LETTER_MAX_BYTES
    },
    groupCommitMs: settings.MILLRACE_GROUP_COMMIT_MS,
    geoipPath: settings.MILLRACE_GEOIP_PATH,
    eventsPerSecond: settings.MILLRACE_INGEST_RATE_LIMIT,
    limits: {
      maxBodyBytes: settings.MILLRACE_MAX_BODY_BYTES,
      maxDecompressedBytes: settings.MILLRACE_MAX_DECOMPRESSED_BYTES,
      maxConnections: settings.MILLRACE_MAX_CONNECTIONS
    },
    spool: { dataDir: settings.MILLRACE_DATA_DIR, maxBytes: settings.MILLRACE_SPOOL_MAX_BYTES },
    names: {
      events: settings.MILLRACE_MAX_NEW_EVENT_NAMES,
      properties: settings.MILLRACE_MAX_NEW_PROPERTIES,
      pairs: settings.MILLRACE_MAX_NEW_EVENT_PROPERTIES
    }
  }
}
