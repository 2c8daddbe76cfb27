const text = (initial: string, description: string) => ({ type: 'string', default: initial, description }) as const

/** @param format  One that `load-settings.ts` knows. */
const formatted = (format: string, initial: string, description: string) =>
  ({ ...text(initial, description), format }) as const

const oneOf = <const One extends string>(values: readonly One[], initial: One, description: string) =>
  ({ ...text(initial, description), enum: values }) as const

const whole = (initial: number, limits: { minimum: number, maximum?: number }, description: string) =>
  ({ type: 'integer', ...limits, default: initial, description }) as const

const port = (initial: number, description: string) => whole(initial, { minimum: 0, maximum: 65535 }, description)

/**
 * Every environment variable Millrace reads, once: its JSON schema, default, unit and reason.
 *
 * A process picks the ones it needs by name (`loadSettings`), so it can only read what it declares. The table in
 * `docs/reference/settings.md` and `deploy/.env.example` are compared with this file by a test.
 */
export const settings = {
  // Addresses
  MILLRACE_PORT: port(8000,
    'Port of the ingest tier, the one entry for SDKs and management requests. In the embedded stack, 0 picks a free port, here and for every other port; addresses.json in the data directory names it.'),
  MILLRACE_HOST: text('127.0.0.1',
    'Address that the HTTP tiers listen on; 0.0.0.0 serves other machines, too.'),
  MILLRACE_API_PORT: port(8001,
    'Port of the API tier (decide and management), to which ingest forwards.'),
  MILLRACE_PIPELINE_PORT: port(8002,
    'Port on which a pipeline process serves health and metrics.'),
  MILLRACE_API_URL: formatted('http-url', 'http://127.0.0.1:8001',
    'URL of the API tier. Ingest forwards everything but capture to it: decide, flags, management.'),
  MILLRACE_INGEST_URLS: formatted('http-urls', '',
    'URLs of the ingest processes whose health the console shows, comma separated. Empty: the one on this machine.'),
  MILLRACE_PIPELINE_URLS: formatted('http-urls', '',
    'URLs of the pipeline processes whose health the console shows, comma separated. Empty: the one on this machine.'),
  MILLRACE_URL: formatted('http-url', '',
    'Address of Millrace for the command line. Empty: the stack on the data directory.'),
  MILLRACE_KEY: formatted('key', '',
    'Personal API key for the command line. Empty: that of the stack on the data directory.'),
  MILLRACE_PUBLIC_URL: formatted('http-url', '',
    'Base URL of links in responses (pagination), and of the login link that a start prints. Empty: taken from the request; the address that ingest listens on.'),
  NATS_URL: formatted('nats-urls', 'nats://127.0.0.1:4222',
    'NATS servers with JetStream, comma separated: nats://user:password@host:port; tls:// for TLS.'),
  CLICKHOUSE_URL: formatted('http-url', 'http://millrace@127.0.0.1:8123/millrace',
    'HTTP URL of ClickHouse, with user, password and database; https:// for TLS.'),
  DATABASE_URL: formatted('postgres-url', 'postgres://millrace@127.0.0.1:5433/millrace',
    'URL of the Postgres database for metadata; ?sslmode=verify-full for TLS.'),
  MILLRACE_CLICKHOUSE_ANALYST_URL: formatted('http-url', '',
    'HTTP URL of ClickHouse with the login of analysts, under which the API runs the SQL of the console. Empty: that of the embedded ClickHouse server; with a server of your own, no SQL in the console.'),

  MILLRACE_CLICKHOUSE_CLUSTER: text('',
    'Name of the ClickHouse cluster that stores the tables. Empty: a single node.'),

  // Embedded stack
  MILLRACE_DATA_DIR: formatted('path', '.millrace',
    'Data directory of the embedded stack and of the ingest spool.'),
  MILLRACE_CLICKHOUSE_PORT: port(8123,
    'Port of the embedded ClickHouse server.'),
  MILLRACE_CLICKHOUSE_HOST: text('127.0.0.1',
    'Address that the embedded ClickHouse server listens on; 0.0.0.0 lets BI tools on other machines in, without TLS.'),
  MILLRACE_CLICKHOUSE_MEMORY_BYTES: whole(0, { minimum: 0 },
    'Maximum memory of the embedded ClickHouse server, in bytes, 100,000,000 or more; a query that would exceed it fails. 0: 60 % of the memory of this machine or container.'),
  MILLRACE_CLICKHOUSE_SEND_TIMEOUT_SECONDS: whole(60, { minimum: 1, maximum: 3600 },
    'How long a client of the embedded ClickHouse server may read nothing of its answer, in seconds, before its query is ended and its connection reset; like http_send_timeout of a server.'),
  MILLRACE_NATS_PORT: port(4222,
    'Port of the embedded nats-server.'),
  MILLRACE_POSTGRES_PORT: port(5433,
    'Port of the embedded Postgres.'),
  MILLRACE_PROJECT_API_KEY: {
    ...formatted('key', '', 'Project API key of project 1, used when the data directory is created. Empty: generated.'), maxLength: 64
  },
  MILLRACE_PERSONAL_API_KEY: {
    ...formatted('key', '', 'Personal API key of the first user, used when the data directory is created. Empty: generated.'), maxLength: 128
  },
  MILLRACE_NATS_SERVER: formatted('path', '',
    'Path of a nats-server binary (2.15.1 or newer). Empty: searched in PATH and in the cache, otherwise downloaded.'),
  MILLRACE_OLD_NATS_SERVER: oneOf(['refuse', 'accept'], 'refuse',
    'What to do with a nats-server older than 2.15.1, embedded or of your own, which may lose acknowledged events at a power cut; accept withdraws the promise about power cuts.'),
  MILLRACE_CLICKHOUSE_PASSWORD: text('',
    'Password of user millrace on the embedded ClickHouse server. Empty: generated into the data directory.'),
  MILLRACE_CLICKHOUSE_ANALYST_PASSWORD: text('',
    'Password of the read-only user analyst on the embedded ClickHouse server. Empty: generated.'),

  // Backups
  MILLRACE_BACKUP_FOLDER: formatted('path', '',
    'Folder for the scheduled backups of this embedded stack; not shared with another stack, best on another disk. Empty: none are made.'),
  MILLRACE_BACKUP_INTERVAL_HOURS: whole(24, { minimum: 1, maximum: 8760 },
    'Hours from one scheduled backup to the next. One that was missed is made at the next start.'),
  MILLRACE_BACKUP_TIME: formatted('time-of-day', '',
    'Time of day in UTC at which an interval of backups begins, such as 02:30. Empty: after the last backup.'),
  MILLRACE_BACKUP_KEEP: whole(7, { minimum: 1 },
    'Number of complete scheduled backups that are kept; older ones are removed after each new one.'),

  // Logs
  MILLRACE_LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info',
    'Minimum level of log lines.'),

  // Stream
  MILLRACE_PARTITIONS: whole(1, { minimum: 1, maximum: 256 },
    'Number of partitions of the events stream; each has one writer at a time. Must be the same for every process.'),
  MILLRACE_STREAM_REPLICAS: whole(1, { minimum: 1, maximum: 5 },
    'Replicas of each stream: 1 on one machine, 3 in a cluster.'),
  MILLRACE_STREAM_MAX_BYTES: whole(10_737_418_240, { minimum: 1_048_576 },
    'Maximum bytes of the events stream; when it is full, ingest writes to its spool. Default 10 GiB.'),
  MILLRACE_DEAD_LETTER_MAX_BYTES: whole(1_073_741_824, { minimum: 1_048_576 },
    'Maximum bytes of the dead-letter stream. When it is full, a partition with a refused event waits; letters about one project have less room. Default 1 GiB.'),

  // Ingest
  MILLRACE_MAX_BODY_BYTES: whole(19_999_999, { minimum: 1024 },
    'Maximum request body as received, in bytes; the contract says less than 20 MB.'),
  MILLRACE_MAX_DECOMPRESSED_BYTES: whole(104_857_600, { minimum: 1024 },
    'Maximum request body after decompression, in bytes; checked while inflating. Default 100 MiB.'),
  MILLRACE_SPOOL_MAX_BYTES: whole(1_073_741_824, { minimum: 0 },
    'Maximum bytes that one ingest process spools to disk while the stream is unavailable. Default 1 GiB.'),
  MILLRACE_GROUP_COMMIT_MS: whole(4, { minimum: 0, maximum: 1000 },
    'Maximum time an event waits to share a message with others, in milliseconds.'),
  MILLRACE_MAX_CONNECTIONS: whole(10_000, { minimum: 1 },
    'Maximum open connections per ingest process; fewer, with a warning, when the limit of open files (ulimit -n) is not 160 higher. Each may use 256 KiB of memory for an unfinished body.'),
  MILLRACE_TRUSTED_PROXIES: formatted('addresses', '',
    'Proxies whose X-Forwarded-For, -Host and -Proto headers ingest trusts: addresses, ranges (10.0.0.0/8), loopback or uniquelocal, comma separated. Empty: none.'),
  MILLRACE_GEOIP_PATH: formatted('path', '',
    'MMDB file of countries or cities, with which ingest and the API look up the place of an address. A replaced file is used within 10 s. Empty: places are not looked up.'),
  MILLRACE_INGEST_RATE_LIMIT: whole(0, { minimum: 0 },
    'Quota of projects that have none of their own: events per second, counted per ingest process, with bursts of ten seconds; then 429. 0: no limit.'),

  // API
  MILLRACE_IMPORT_FOLDER: formatted('path', '',
    'Folder with exports that the console imports: those of project 1 in its folder 1. The API writes its state there, and needs 300 MB more memory for each of at most two imports. Empty: none; in the embedded stack, imports in the data directory.'),
  MILLRACE_MANAGEMENT_RATE_LIMIT: whole(12_000, { minimum: 0 },
    'Maximum management requests per minute and personal key, counted per API process. 0: no limit.'),

  // Pipeline
  MILLRACE_BATCH_MAX_ROWS: whole(100_000, { minimum: 1, maximum: 200_000 },
    'Maximum rows per insert. Above 200,000 an insert is no longer one block.'),
  MILLRACE_BATCH_MAX_BYTES: whole(16_777_216, { minimum: 65_536, maximum: 104_857_600 },
    'Maximum compressed bytes per insert. Default 16 MiB.'),
  MILLRACE_BATCH_MAX_AGE_MS: whole(500, { minimum: 10, maximum: 60_000 },
    'Maximum wait of the oldest message of a batch, in milliseconds: how late events become visible.'),
  MILLRACE_MAX_GROUP_TYPES: whole(5, { minimum: 0, maximum: 10_000 },
    'Maximum group types per project. Events with further types are stored; those types get no index, no groups and no flags. Must be the same for every process.'),
  MILLRACE_MAX_NEW_EVENT_NAMES: whole(2000, { minimum: 0 },
    'Maximum new event names per project and UTC day that get a definition; further events are stored without one. Known names are not counted. Must be the same for every ingest and pipeline process.'),
  MILLRACE_MAX_NEW_PROPERTIES: whole(5000, { minimum: 0 },
    'Maximum new properties of events, persons and groups per project and UTC day that get a definition.'),
  MILLRACE_MAX_NEW_EVENT_PROPERTIES: whole(50_000, { minimum: 0 },
    'Maximum new event-property pairs per project and UTC day that get a definition.'),
  MILLRACE_DEFINITION_RETENTION_DAYS: whole(90, { minimum: 0, maximum: 3650 },
    'Days after its last event until a definition that nobody has edited is deleted; 0: never. 1 to 31 count as 32.'),
  MILLRACE_ROLL_UP_INTERVAL_MS: whole(2000, { minimum: 100, maximum: 600_000 },
    'Pause between roll-ups of definitions into Postgres, in milliseconds. While no name is new, only every fifth updates volumes, types and times.')
}

export type SettingName = keyof typeof settings

type SettingValue<S> = S extends { type: 'integer' } ? number : S extends { enum: readonly (infer E)[] } ? E : string

/** The validated, converted values of the named settings. */
export type SettingValues<N extends SettingName> = { readonly [K in N]: SettingValue<(typeof settings)[K]> }
