import path from 'node:path'
import { SettingsError } from '../../engines/errors.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { settings, type SettingName, type SettingValues } from '../../platform/settings.ts'

export type StackSettings = ReturnType<typeof loadStackSettings>

/** Input of the supervisor, passed by its environment; the tiers get the rest of that. */
export interface Handover {
  settings: Omit<StackSettings, 'env'>
  /** When this process began, in milliseconds of Unix time. */
  startedAt: number
}

/** Only the stack itself needs these; a tier that never sees a secret cannot leak it. */
const NOT_FOR_TIERS: readonly string[] = [
  'MILLRACE_PROJECT_API_KEY', 'MILLRACE_PERSONAL_API_KEY', 'MILLRACE_KEY',
  // The API and the pipeline get it, and nobody else.
  'MILLRACE_CLICKHOUSE_ANALYST_URL',
  // The pipeline.
  'MILLRACE_SMTP_URL'
]

const NAMES = Object.keys(settings) as SettingName[]

const PATHS = NAMES.filter((name) => 'format' in settings[name] && settings[name].format === 'path')

/**
 * Reads the settings of the whole stack, those of its tiers included: a wrong one is reported before anything is
 * started, together with all others.
 *
 * @throws {SettingsError} listing every problem.
 */
export function loadStackSettings (env: NodeJS.ProcessEnv) {
  const values = loadSettings(env, NAMES)
  const chosen = values.MILLRACE_NATS_SERVER
  const isSet = (name: SettingName): boolean => (env[name] ?? '') !== ''
  const problems = findContradictions(values, isSet)
  if (problems.length > 0) throw new SettingsError(problems)
  const tiersEnv: NodeJS.ProcessEnv = {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => !NOT_FOR_TIERS.includes(name))),
    // They run in another folder.
    ...Object.fromEntries(PATHS.filter(isSet).map((name) => [name, path.resolve(String(values[name]))])),
    MILLRACE_IMPORT_FOLDER: path.resolve(values.MILLRACE_IMPORT_FOLDER || path.join(values.MILLRACE_DATA_DIR, 'imports')),
    MILLRACE_EXPORT_FOLDER: path.resolve(values.MILLRACE_EXPORT_FOLDER || path.join(values.MILLRACE_DATA_DIR, 'exports'))
  }
  return {
    dataDir: path.resolve(values.MILLRACE_DATA_DIR),
    host: values.MILLRACE_HOST,
    /** Where browsers reach the origin; empty: where it listens. */
    publicUrl: values.MILLRACE_PUBLIC_URL.replace(/\/+$/, ''),
    clickhouseHost: values.MILLRACE_CLICKHOUSE_HOST,
    /** 0: a free one. */
    ports: {
      origin: values.MILLRACE_PORT,
      // Behind the origin nobody needs to know them, so they do not get in the way of a second stack.
      api: isSet('MILLRACE_API_PORT') ? values.MILLRACE_API_PORT : 0,
      pipeline: isSet('MILLRACE_PIPELINE_PORT') ? values.MILLRACE_PIPELINE_PORT : 0,
      clickhouse: values.MILLRACE_CLICKHOUSE_PORT,
      nats: values.MILLRACE_NATS_PORT,
      postgres: values.MILLRACE_POSTGRES_PORT
    },
    /** Servers that replace an embedded part; undefined: embedded. */
    external: {
      natsUrl: isSet('NATS_URL') ? values.NATS_URL : undefined,
      clickhouseUrl: isSet('CLICKHOUSE_URL') ? values.CLICKHOUSE_URL : undefined,
      analystUrl: isSet('MILLRACE_CLICKHOUSE_ANALYST_URL') ? values.MILLRACE_CLICKHOUSE_ANALYST_URL : undefined,
      databaseUrl: isSet('DATABASE_URL') ? values.DATABASE_URL : undefined
    },
    clickhouseCluster: values.MILLRACE_CLICKHOUSE_CLUSTER,
    /** Of the embedded server; 0: a share of what there is. */
    clickhouseMemoryBytes: values.MILLRACE_CLICKHOUSE_MEMORY_BYTES,
    // A bare name is looked for on PATH.
    natsServer: chosen.includes(path.sep) ? path.resolve(chosen) : chosen,
    logLevel: values.MILLRACE_LOG_LEVEL,
    /** Schedule of backups; `folder` is empty without one. */
    backups: {
      folder: values.MILLRACE_BACKUP_FOLDER === '' ? '' : path.resolve(values.MILLRACE_BACKUP_FOLDER),
      intervalMs: values.MILLRACE_BACKUP_INTERVAL_HOURS * 3_600_000,
      timeOfDayMs: values.MILLRACE_BACKUP_TIME === '' ? null : Date.parse(`1970-01-01T${values.MILLRACE_BACKUP_TIME}Z`)
    },
    /** Chosen by the operator; empty: generated. */
    chosen: { projectApiKey: values.MILLRACE_PROJECT_API_KEY, personalApiKey: values.MILLRACE_PERSONAL_API_KEY },
    smtpUrl: values.MILLRACE_SMTP_URL,
    /** The environment the tiers start with, before their addresses are filled in. */
    env: tiersEnv
  }
}

/** With 30 MB no insert and no query succeeds, with 100 MB those of a small machine do (measured, 23 November 2026). */
const LEAST_CLICKHOUSE_MEMORY_BYTES = 100_000_000

/** Settings that are valid each, and do not work together on the embedded stack. */
function findContradictions (values: SettingValues<SettingName>, isSet: (name: SettingName) => boolean): string[] {
  const problems: string[] = []
  if (values.MILLRACE_PROJECT_API_KEY.startsWith('phx_')) {
    problems.push('MILLRACE_PROJECT_API_KEY must not begin with phx_, which marks personal API keys')
  }
  if (values.MILLRACE_PERSONAL_API_KEY.startsWith('phc_')) {
    problems.push('MILLRACE_PERSONAL_API_KEY must not begin with phc_, which marks project API keys')
  }
  const memory = values.MILLRACE_CLICKHOUSE_MEMORY_BYTES
  if (memory > 0 && memory < LEAST_CLICKHOUSE_MEMORY_BYTES) {
    problems.push(`MILLRACE_CLICKHOUSE_MEMORY_BYTES is in bytes: with ${memory} nothing could be stored. Set ${LEAST_CLICKHOUSE_MEMORY_BYTES} or more, ` +
      'or 0 for a share of the memory of this machine')
  }
  if (values.MILLRACE_STREAM_REPLICAS > 1 && !isSet('NATS_URL')) {
    problems.push(`MILLRACE_STREAM_REPLICAS is ${values.MILLRACE_STREAM_REPLICAS}, but the embedded nats-server is a single one: leave it at 1, ` +
      'or set NATS_URL to a cluster')
  }
  if (values.MILLRACE_CLICKHOUSE_CLUSTER !== '' && !isSet('CLICKHOUSE_URL')) {
    problems.push('MILLRACE_CLICKHOUSE_CLUSTER is set, but the embedded ClickHouse server has no clusters: leave it empty, ' +
      'or set CLICKHOUSE_URL to a server of the cluster')
  }
  return problems
}
