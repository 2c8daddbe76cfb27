/**
 * Every environment variable Millrace reads, once: its JSON schema, default, unit and reason.
 *
 * A process picks the ones it needs by name (`loadSettings`), so it can only read what it declares. The table in
 * `docs/settings.md` and `deploy/.env.example` are compared with this file by a test.
 */
export const settings = {
  // Addresses
  MILLRACE_PORT: {
    type: 'integer', minimum: 0, maximum: 65535, default: 8000,
    description: 'Port of the ingest tier, which is the one origin for SDKs and management.'
  },
  MILLRACE_HOST: {
    type: 'string', default: '127.0.0.1',
    description: 'Address the HTTP tiers listen on. 0.0.0.0 to serve other machines.'
  },
  MILLRACE_API_PORT: {
    type: 'integer', minimum: 0, maximum: 65535, default: 8001,
    description: 'Port of the API tier (decide and management) behind the origin.'
  },
  MILLRACE_PIPELINE_PORT: {
    type: 'integer', minimum: 0, maximum: 65535, default: 8002,
    description: 'Port on which a pipeline process answers health and metrics.'
  },
  MILLRACE_API_URL: {
    type: 'string', default: 'http://127.0.0.1:8001',
    description: 'Where ingest forwards what is not capture (decide, flags, management).'
  },
  MILLRACE_PUBLIC_URL: {
    type: 'string', default: '',
    description: 'Base of absolute links in answers (pages). Empty: taken from the request.'
  },
  NATS_URL: {
    type: 'string', default: 'nats://127.0.0.1:4222',
    description: 'NATS servers with JetStream, comma separated: nats://user:password@host:port, tls:// with TLS.'
  },
  CLICKHOUSE_URL: {
    type: 'string', default: 'http://millrace@127.0.0.1:8123/millrace',
    description: 'ClickHouse over HTTP: user, password and database in the URL; https:// with TLS.'
  },
  DATABASE_URL: {
    type: 'string', default: 'postgres://millrace@127.0.0.1:5433/millrace',
    description: 'Postgres with the metadata; ?sslmode=verify-full with TLS.'
  },

  MILLRACE_CLICKHOUSE_CLUSTER: {
    type: 'string', default: '',
    description: 'Name of the ClickHouse cluster whose nodes hold the tables. Empty: one node.'
  },

  // Embedded stack
  MILLRACE_DATA_DIR: {
    type: 'string', default: '.millrace',
    description: 'Folder of the embedded stack and of the spool of ingest.'
  },
  MILLRACE_CLICKHOUSE_PORT: {
    type: 'integer', minimum: 0, maximum: 65535, default: 8123,
    description: 'Port of the embedded ClickHouse server.'
  },
  MILLRACE_NATS_PORT: {
    type: 'integer', minimum: 0, maximum: 65535, default: 4222,
    description: 'Port of the embedded nats-server.'
  },
  MILLRACE_POSTGRES_PORT: {
    type: 'integer', minimum: 0, maximum: 65535, default: 5433,
    description: 'Port of the embedded Postgres.'
  },
  MILLRACE_PROJECT_API_KEY: {
    type: 'string', default: '', maxLength: 64,
    description: 'Project API key of project 1 on an empty data directory. Empty: generated.'
  },
  MILLRACE_PERSONAL_API_KEY: {
    type: 'string', default: '', maxLength: 128,
    description: 'Personal API key of the first user on an empty data directory. Empty: generated.'
  },
  MILLRACE_NATS_SERVER: {
    type: 'string', default: '',
    description: 'Path of a nats-server binary (2.10 or newer). Empty: PATH, then the cache, then fetched.'
  },
  MILLRACE_CLICKHOUSE_PASSWORD: {
    type: 'string', default: '',
    description: 'Password of user millrace on the embedded ClickHouse server. Empty: generated into the data directory.'
  },
  MILLRACE_CLICKHOUSE_ANALYST_PASSWORD: {
    type: 'string', default: '',
    description: 'Password of the read-only user analyst on the embedded ClickHouse server. Empty: generated.'
  },

  // Logs
  MILLRACE_LOG_LEVEL: {
    type: 'string', enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], default: 'info',
    description: 'Lowest level that is logged.'
  },

  // Stream
  MILLRACE_PARTITIONS: {
    type: 'integer', minimum: 1, maximum: 256, default: 1,
    description: 'Partitions of the events stream; one writer owns a partition at a time. The same for every process.'
  },
  MILLRACE_STREAM_REPLICAS: {
    type: 'integer', minimum: 1, maximum: 5, default: 1,
    description: 'Replicas of each stream: 1 on one machine, 3 in a cluster.'
  },
  MILLRACE_STREAM_MAX_BYTES: {
    type: 'integer', minimum: 1_048_576, default: 10_737_418_240,
    description: 'Bytes the events stream may hold; beyond, ingest spools. Default 10 GiB.'
  },
  MILLRACE_DEAD_LETTER_MAX_BYTES: {
    type: 'integer', minimum: 1_048_576, default: 1_073_741_824,
    description: 'Bytes the dead-letter stream may hold; beyond, partitions wait rather than discard. Default 1 GiB.'
  },

  // Ingest
  MILLRACE_MAX_BODY_BYTES: {
    type: 'integer', minimum: 1024, default: 19_999_999,
    description: 'Largest request body on the wire, in bytes: the contract says less than 20 MB.'
  },
  MILLRACE_MAX_DECOMPRESSED_BYTES: {
    type: 'integer', minimum: 1024, default: 104_857_600,
    description: 'Largest body after decompression, in bytes; checked while inflating. Default 100 MiB.'
  },
  MILLRACE_SPOOL_MAX_BYTES: {
    type: 'integer', minimum: 0, default: 1_073_741_824,
    description: 'Bytes the spool of one ingest process may hold while the stream is unavailable. Default 1 GiB.'
  },
  MILLRACE_GROUP_COMMIT_MS: {
    type: 'integer', minimum: 0, maximum: 1000, default: 4,
    description: 'Longest wait for company of an event before its message is published, in milliseconds.'
  },
  MILLRACE_MAX_CONNECTIONS: {
    type: 'integer', minimum: 1, default: 10_000,
    description: 'Connections to an ingest process; one more is closed. Each may hold 256 KiB of an unfinished body.'
  },
  MILLRACE_TRUSTED_PROXIES: {
    type: 'string', format: 'addresses', default: '',
    description: 'Proxies whose X-Forwarded-For, -Host and -Proto ingest believes: addresses, ranges (10.0.0.0/8), loopback or uniquelocal, comma separated. Empty: none.'
  },
  MILLRACE_INGEST_RATE_LIMIT: {
    type: 'integer', minimum: 0, default: 0,
    description: 'Events per second and project, counted by each ingest process; ten seconds\' worth at once, then 429. 0: no limit.'
  },

  // API
  MILLRACE_MANAGEMENT_RATE_LIMIT: {
    type: 'integer', minimum: 0, default: 12_000,
    description: 'Management requests per minute and personal key, counted by each API process. 0: no limit.'
  },

  // Pipeline
  MILLRACE_BATCH_MAX_ROWS: {
    type: 'integer', minimum: 1, maximum: 200_000, default: 100_000,
    description: 'Rows per insert at most. 200,000 is the measured bound for one block per insert.'
  },
  MILLRACE_BATCH_MAX_BYTES: {
    type: 'integer', minimum: 65_536, maximum: 104_857_600, default: 16_777_216,
    description: 'Compressed bytes per insert at most. Default 16 MiB.'
  },
  MILLRACE_BATCH_MAX_AGE_MS: {
    type: 'integer', minimum: 10, maximum: 60_000, default: 500,
    description: 'Longest wait of the oldest message of a batch, in milliseconds; bounds staleness.'
  },
  MILLRACE_MAX_GROUP_TYPES: {
    type: 'integer', minimum: 0, maximum: 10_000, default: 5,
    description: 'Group types of a project. Events of further ones are stored, but they get no index, no groups and no flags. The same for every process.'
  },
  MILLRACE_ROLL_UP_INTERVAL_MS: {
    type: 'integer', minimum: 100, maximum: 600_000, default: 2000,
    description: 'Pause between two roll-ups of definitions into Postgres, in milliseconds.'
  }
} as const

export type SettingName = keyof typeof settings

type SettingValue<S> = S extends { type: 'integer' } ? number : S extends { enum: readonly (infer E)[] } ? E : string

/** The validated, converted values of the named settings. */
export type SettingValues<N extends SettingName> = { readonly [K in N]: SettingValue<(typeof settings)[K]> }
