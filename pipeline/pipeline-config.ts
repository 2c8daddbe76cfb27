import { loadSettings } from '../platform/load-settings.ts'

/** Settings of a pipeline process, from its environment; see `platform/settings.ts` for units and reasons. */
export type PipelineConfig = ReturnType<typeof loadPipelineConfig>

/** Volumes of 30 days have become 0 by then: a definition shows no old one when it is read for the last time. */
const LEAST_RETENTION_DAYS = 32

/** @throws {SettingsError} listing every problem of the environment. */
export function loadPipelineConfig (env: NodeJS.ProcessEnv) {
  const settings = loadSettings(env, [
    'MILLRACE_HOST', 'MILLRACE_PIPELINE_PORT', 'MILLRACE_LOG_LEVEL', 'NATS_URL',
    'CLICKHOUSE_URL', 'DATABASE_URL',
    'MILLRACE_PARTITIONS', 'MILLRACE_STREAM_REPLICAS', 'MILLRACE_STREAM_MAX_BYTES', 'MILLRACE_DEAD_LETTER_MAX_BYTES',
    'MILLRACE_BATCH_MAX_ROWS', 'MILLRACE_BATCH_MAX_BYTES', 'MILLRACE_BATCH_MAX_AGE_MS', 'MILLRACE_ROLL_UP_INTERVAL_MS',
    'MILLRACE_CLICKHOUSE_CLUSTER', 'MILLRACE_MAX_GROUP_TYPES', 'MILLRACE_BACKUP_FOLDER', 'MILLRACE_BACKUP_INTERVAL_HOURS',
    'MILLRACE_MAX_NEW_EVENT_NAMES', 'MILLRACE_MAX_NEW_PROPERTIES', 'MILLRACE_MAX_NEW_EVENT_PROPERTIES',
    'MILLRACE_DEFINITION_RETENTION_DAYS', 'MILLRACE_EXPORT_FOLDER', 'MILLRACE_CLICKHOUSE_ANALYST_URL',
    'MILLRACE_PUBLIC_URL', 'MILLRACE_TARGET_ADDRESSES', 'MILLRACE_SMTP_URL', 'MILLRACE_MAIL_FROM'
  ])
  const days = settings.MILLRACE_DEFINITION_RETENTION_DAYS
  return {
    http: { host: settings.MILLRACE_HOST, port: settings.MILLRACE_PIPELINE_PORT },
    logLevel: settings.MILLRACE_LOG_LEVEL,
    natsUrl: settings.NATS_URL,
    clickhouseUrl: settings.CLICKHOUSE_URL,
    clickhouseCluster: settings.MILLRACE_CLICKHOUSE_CLUSTER,
    databaseUrl: settings.DATABASE_URL,
    streams: {
      partitions: settings.MILLRACE_PARTITIONS,
      replicas: settings.MILLRACE_STREAM_REPLICAS,
      eventsMaxBytes: settings.MILLRACE_STREAM_MAX_BYTES,
      deadLetterMaxBytes: settings.MILLRACE_DEAD_LETTER_MAX_BYTES
    },
    batch: {
      maxRows: settings.MILLRACE_BATCH_MAX_ROWS,
      maxBytes: settings.MILLRACE_BATCH_MAX_BYTES,
      maxAgeMs: settings.MILLRACE_BATCH_MAX_AGE_MS
    },
    rollUpIntervalMs: settings.MILLRACE_ROLL_UP_INTERVAL_MS,
    definitions: {
      events: settings.MILLRACE_MAX_NEW_EVENT_NAMES,
      properties: settings.MILLRACE_MAX_NEW_PROPERTIES,
      pairs: settings.MILLRACE_MAX_NEW_EVENT_PROPERTIES,
      retentionDays: days === 0 ? 0 : Math.max(days, LEAST_RETENTION_DAYS)
    },
    backupIntervalMs: settings.MILLRACE_BACKUP_FOLDER === '' ? 0 : settings.MILLRACE_BACKUP_INTERVAL_HOURS * 3_600_000,
    maxGroupTypes: settings.MILLRACE_MAX_GROUP_TYPES,
    exportFolder: settings.MILLRACE_EXPORT_FOLDER,
    analystUrl: settings.MILLRACE_CLICKHOUSE_ANALYST_URL,
    publicUrl: settings.MILLRACE_PUBLIC_URL.replace(/\/$/, ''),
    targets: {
      allowed: settings.MILLRACE_TARGET_ADDRESSES,
      smtpUrl: settings.MILLRACE_SMTP_URL,
      mailFrom: settings.MILLRACE_MAIL_FROM
    }
  }
}
