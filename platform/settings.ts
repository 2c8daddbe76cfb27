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
    'Port of the ingest tier, the entry for SDKs and management requests. In the embedded stack, 0 picks a free port, as for every port; addresses.json names it.'),
  MILLRACE_HOST: text('127.0.0.1',
    'Address that the HTTP tiers listen on; 0.0.0.0 serves other machines, too.'),
  MILLRACE_API_PORT: port(8001,
    'Port of the API tier (decide and management).'),
  MILLRACE_PIPELINE_PORT: port(8002,
    'Port on which a pipeline process serves health and metrics.'),
  MILLRACE_API_URL: formatted('http-url', 'http://127.0.0.1:8001',
    'URL of the API tier, to which ingest forwards all but capture.'),
  MILLRACE_INGEST_URLS: formatted('http-urls', '',
    'URLs of the ingest processes whose health the console shows, comma separated. Empty: that on this machine.'),
  MILLRACE_PIPELINE_URLS: formatted('http-urls', '',
    'URLs of the pipeline processes whose health the console shows, comma separated. Empty: that on this machine.'),
  MILLRACE_URL: formatted('http-url', '',
    'Address of Millrace for the command line. Empty: the stack on the data directory.'),
  MILLRACE_KEY: formatted('key', '',
    'Personal API key for the command line. Empty: that of the stack on the data directory.'),
  MILLRACE_PUBLIC_URL: formatted('http-url', '',
    'Base URL of links in responses and of the login link at start. Empty: taken from the request; the address of ingest.'),
  NATS_URL: formatted('nats-urls', 'nats://127.0.0.1:4222',
    'NATS servers with JetStream, comma separated: nats://user:password@host:port; tls:// for TLS.'),
  CLICKHOUSE_URL: formatted('http-url', 'http://millrace@127.0.0.1:8123/millrace',
    'HTTP URL of ClickHouse, with user, password and database; https:// for TLS.'),
  DATABASE_URL: formatted('postgres-url', 'postgres://millrace@127.0.0.1:5433/millrace',
    'URL of the Postgres database for metadata; ?sslmode=verify-full for TLS.'),
  MILLRACE_CLICKHOUSE_ANALYST_URL: formatted('http-url', '',
    'HTTP URL of ClickHouse with the analyst login, for SQL in the console. Empty: that of the embedded server; with your own server, no SQL.'),

  MILLRACE_CLICKHOUSE_CLUSTER: text('',
    'Name of the ClickHouse cluster that stores the tables. Empty: a single node.'),

  // Embedded stack
  MILLRACE_DATA_DIR: formatted('path', '.millrace',
    'Data directory of the embedded stack and of the ingest spool.'),
  MILLRACE_CLICKHOUSE_PORT: port(8123,
    'Port of the embedded ClickHouse server.'),
  MILLRACE_CLICKHOUSE_HOST: text('127.0.0.1',
    'Address of the embedded ClickHouse server; 0.0.0.0 lets BI tools on other machines in, without TLS.'),
  MILLRACE_CLICKHOUSE_MEMORY_BYTES: whole(0, { minimum: 0 },
    'Maximum memory of the embedded ClickHouse server, in bytes, 100,000,000 or more. 0: 60 % of the machine or container.'),
  MILLRACE_NATS_PORT: port(4222,
    'Port of the embedded nats-server.'),
  MILLRACE_POSTGRES_PORT: port(5433,
    'Port of the embedded Postgres.'),
  MILLRACE_PROJECT_API_KEY: {
    ...formatted('key', '', 'Project API key of project 1 of a new data directory. Empty: generated.'), maxLength: 64
  },
  MILLRACE_PERSONAL_API_KEY: {
    ...formatted('key', '', 'Personal API key of the first user of a new data directory. Empty: generated.'), maxLength: 128
  },
  MILLRACE_NATS_SERVER: formatted('path', '',
    'Path of a nats-server binary (2.15.1 or newer). Empty: from PATH or the cache, else downloaded.'),

  // Backups
  MILLRACE_BACKUP_FOLDER: formatted('path', '',
    'Folder for scheduled backups of this embedded stack alone, best on another disk. Empty: no backups.'),
  MILLRACE_BACKUP_INTERVAL_HOURS: whole(24, { minimum: 1, maximum: 8760 },
    'Hours between scheduled backups; a missed one is made at the next start.'),
  MILLRACE_BACKUP_TIME: formatted('time-of-day', '',
    'Time of day in UTC at which backup intervals begin, such as 02:30. Empty: after the last backup.'),
  MILLRACE_BACKUP_KEEP: whole(7, { minimum: 1 },
    'Number of complete scheduled backups to keep.'),

  // Logs
  MILLRACE_LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info',
    'Minimum level of log lines.'),

  // Stream
  MILLRACE_PARTITIONS: whole(1, { minimum: 1, maximum: 256 },
    'Partitions of the events stream, each with one writer; the same for every process.'),
  MILLRACE_STREAM_REPLICAS: whole(1, { minimum: 1, maximum: 5 },
    'Replicas of each stream: 1 on one machine, 3 in a cluster.'),
  MILLRACE_STREAM_MAX_BYTES: whole(10_737_418_240, { minimum: 1_048_576 },
    'Maximum bytes of the events stream, beyond which ingest spools. Default 10 GiB.'),
  MILLRACE_DEAD_LETTER_MAX_BYTES: whole(1_073_741_824, { minimum: 1_048_576 },
    'Maximum bytes of the dead-letter stream, beyond which a partition with a refused event waits. Default 1 GiB.'),

  // Ingest
  MILLRACE_MAX_BODY_BYTES: whole(19_999_999, { minimum: 1024 },
    'Maximum request body as received, in bytes; the contract says less than 20 MB.'),
  MILLRACE_MAX_DECOMPRESSED_BYTES: whole(104_857_600, { minimum: 1024 },
    'Maximum request body after decompression, in bytes. Default 100 MiB.'),
  MILLRACE_SPOOL_MAX_BYTES: whole(1_073_741_824, { minimum: 0 },
    'Maximum bytes that an ingest process spools. Default 1 GiB.'),
  MILLRACE_GROUP_COMMIT_MS: whole(4, { minimum: 0, maximum: 1000 },
    'Maximum wait of an event to share a message, in milliseconds.'),
  MILLRACE_MAX_CONNECTIONS: whole(10_000, { minimum: 1 },
    'Maximum connections per ingest process, each with up to 256 KiB of memory; fewer, with a warning, unless the limit of open files is 160 higher.'),
  MILLRACE_TRUSTED_PROXIES: formatted('addresses', '',
    'Proxies whose X-Forwarded-For, -Host and -Proto ingest trusts: addresses, ranges (10.0.0.0/8), loopback or uniquelocal, comma separated. Empty: none.'),
  MILLRACE_GEOIP_PATH: formatted('path', '',
    'MMDB file of countries or cities, to look up the place of an address; reloaded within 10 s. Empty: no lookup.'),
  MILLRACE_INGEST_RATE_LIMIT: whole(0, { minimum: 0 },
    'Events per second and ingest process of projects without a quota of their own, with bursts of ten seconds; then 429. 0: no limit.'),

  // Exports
  MILLRACE_EXPORT_FOLDER: formatted('path', '',
    'Folder of exports whose target is a folder, the same for all pipeline processes. It must exist: exports wait while it does not. Empty: none; in the embedded stack, exports in the data directory.'),
  // Alerts and webhooks
  MILLRACE_TARGET_ADDRESSES: formatted('addresses', '',
    'Addresses and ranges that targets may have although they are not public, such as 10.0.0.0/8, loopback or uniquelocal, comma separated. Empty: public addresses only.'),
  MILLRACE_SMTP_URL: formatted('smtp-url', '',
    'SMTP server for mail: smtp://user:password@host:587; smtps:// for TLS from the start. Empty: no mail.'),
  MILLRACE_MAIL_FROM: text('',
    'Sender of mail, such as Millrace <millrace@example.com>. Empty: no mail.'),

  // API
  MILLRACE_IMPORT_FOLDER: formatted('path', '',
    'Folder with exports that the console imports, those of project 1 in its folder 1; each of at most two imports needs 300 MB of memory. Empty: none; in the embedded stack, imports in the data directory.'),
  MILLRACE_MANAGEMENT_RATE_LIMIT: whole(12_000, { minimum: 0 },
    'Maximum management requests per minute, personal key and API process. 0: no limit.'),

  MILLRACE_OIDC_ISSUER: formatted('http-url', '',
    'Issuer of the OpenID Connect provider that people log in with. Empty: none.'),
  MILLRACE_OIDC_CLIENT_ID: text('', 'Client id at the provider; redirect URI: /console/login/oidc/callback of MILLRACE_PUBLIC_URL.'),
  MILLRACE_OIDC_CLIENT_SECRET: text('', 'Client secret at the provider.'),
  MILLRACE_OIDC_SCOPES: text('openid email profile', 'Scopes to ask the provider for, separated by blanks.'),
  MILLRACE_OIDC_ROLE_CLAIM: text('groups', 'Claim with the groups of a person; dots lead into objects.'),
  MILLRACE_LOGIN_ROLES: text('',
    'Roles by group or domain of the address: group=editor, group=viewer:2 (project), @example.com=viewer+persons, comma separated. Empty: only people who are invited.'),
  MILLRACE_PROXY_LOGIN: oneOf(['off', 'on'], 'off',
    'Whether Remote-User, -Email, -Name and -Groups from MILLRACE_TRUSTED_PROXIES log people in.'),
  MILLRACE_RECORD_DAYS: whole(730, { minimum: 0 },
    'Days to keep the record of changes, logins and readings of persons and SQL. 0: forever.'),

  // Pipeline
  MILLRACE_BATCH_MAX_ROWS: whole(100_000, { minimum: 1, maximum: 200_000 },
    'Maximum rows per insert; above 200,000 it is no longer one block.'),
  MILLRACE_BATCH_MAX_BYTES: whole(16_777_216, { minimum: 65_536, maximum: 104_857_600 },
    'Maximum compressed bytes per insert. Default 16 MiB.'),
  MILLRACE_BATCH_MAX_AGE_MS: whole(500, { minimum: 10, maximum: 60_000 },
    'Maximum wait of the oldest message of a batch, in milliseconds.'),
  MILLRACE_MAX_GROUP_TYPES: whole(5, { minimum: 0, maximum: 10_000 },
    'Maximum group types per project; further ones get no groups and no flags. The same for every process.'),
  MILLRACE_MAX_NEW_EVENT_NAMES: whole(2000, { minimum: 0 },
    'Maximum new event names with a definition per project and UTC day; further events are stored without one. The same for every ingest and pipeline process.'),
  MILLRACE_MAX_NEW_PROPERTIES: whole(5000, { minimum: 0 },
    'Maximum new properties with a definition per project and UTC day.'),
  MILLRACE_MAX_NEW_EVENT_PROPERTIES: whole(50_000, { minimum: 0 },
    'Maximum new event-property pairs with a definition per project and UTC day.'),
  MILLRACE_DEFINITION_RETENTION_DAYS: whole(90, { minimum: 0, maximum: 3650 },
    'Days after its last event until an unedited definition is deleted; 0: never, 1 to 31 count as 32.'),
  MILLRACE_ROLL_UP_INTERVAL_MS: whole(2000, { minimum: 100, maximum: 600_000 },
    'Pause between roll-ups of definitions, in milliseconds. Without new names only every fifth updates volumes, types and times.')
}

export type SettingName = keyof typeof settings

type SettingValue<S> = S extends { type: 'integer' } ? number : S extends { enum: readonly (infer E)[] } ? E : string

/** The validated, converted values of the named settings. */
export type SettingValues<N extends SettingName> = { readonly [K in N]: SettingValue<(typeof settings)[K]> }
