/** The SQL of backups and restores. Texts only; `cli/backup` runs them. */
import { quoteIdentifier, quoteString } from '../engines/clickhouse-sql.ts'

/** A column of a table of ClickHouse; backups of earlier versions lack comments and codecs. */
export type ColumnOfTable = Record<'name' | 'type' | 'kind' | 'expression', string> & Partial<Record<'comment' | 'codec', string>>

export const addColumn = (table: string, { name, type, kind, expression, comment = '', codec = '' }: ColumnOfTable, onCluster = ''): string =>
  `ALTER TABLE ${table} ${onCluster} ADD COLUMN IF NOT EXISTS ${quoteIdentifier(name)} ${type} ${kind} ${expression} COMMENT ${quoteString(comment)} ${codec}`

export const LIST_COLUMNS = `SELECT name, type, default_kind AS kind, default_expression AS expression, comment, compression_codec AS codec
  FROM system.columns WHERE database = currentDatabase() AND table = {table: String} ORDER BY position`
export const LIST_TABLES = `SELECT name AS table, data_paths[1] AS dataPath FROM system.tables
  WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name != 'schema_migrations' ORDER BY name`
export const COUNT_ROWS = `SELECT sum(rows) AS rows FROM system.parts
  WHERE active AND database = currentDatabase() AND table = {table: String}`
export const LIST_MIGRATIONS = 'SELECT name, checksum FROM schema_migrations FINAL ORDER BY name'
export const READ_VERSION = 'SELECT version() AS version'

export const freezeTable = (table: string, name: string): string => `ALTER TABLE "${table}" FREEZE WITH NAME '${name}'`
export const attachPart = (table: string, part: string): string => `ALTER TABLE "${table}" ATTACH PART ${quoteString(part)}`
export const setMerges = (table: string, how: 'STOP' | 'START'): string => `SYSTEM ${how} MERGES "${table}"`

/** A copy of `events` in a database of its own, made of hard links. */
export const copyEventsTo = (database: string): string[] => [
  `CREATE DATABASE ${database}`, `CREATE TABLE ${database}.events AS events`, `ALTER TABLE ${database}.events ATTACH PARTITION ALL FROM events`
]
export const dropDatabase = (database: string): string => `DROP DATABASE IF EXISTS ${database} SYNC`

/** Count and order-free checksum of each project and day. */
export const readBooksOf = (table: string): string => `SELECT project_id AS project, toString(toDate(received_at, 'UTC')) AS day,
    toString(count()) AS events, toString(sum(cityHash64(uuid, event, distinct_id, timestamp))) AS checksum
  FROM ${table} GROUP BY project, day ORDER BY project, day`

/** The same of Postgres. */
export const POSTGRES = {
  takeSnapshot: 'SELECT 1',
  readVersion: "SELECT current_setting('server_version') AS version",
  readBytes: 'SELECT pg_database_size(current_database()) AS bytes',
  listMigrations: 'SELECT name, checksum FROM schema_migration_checksums ORDER BY name',
  listSequences: "SELECT sequencename AS name, last_value::text AS last FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1",
  setSequence: 'SELECT setval($1::text::regclass, $2::text::bigint)',
  /** But for those of the first parameter. */
  listTables: `SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
      AND NOT a.attisdropped AND a.attgenerated = '' AND c.relname <> ALL ($1::text[])
    GROUP BY 1 ORDER BY 1`,
  /** Disables triggers and foreign keys, as rows arrive table by table; together they are consistent. */
  disableTriggers: 'SET LOCAL session_replication_role = replica',
  truncate: (tables: readonly string[]): string => `TRUNCATE ${quoteNames(tables)}`,
  countRows: (table: string): string => `SELECT count(*) AS rows FROM "${table}"`,
  copyOut: (table: string, columns: readonly string[]): string => `COPY "${table}" (${quoteNames(columns)}) TO STDOUT`,
  copyIn: (table: string, columns: readonly string[]): string => `COPY "${table}" (${quoteNames(columns)}) FROM STDIN`
} as const

const quoteNames = (names: readonly string[]) => names.map((name) => `"${name.replaceAll('"', '""')}"`).join(', ')

/** What a backup says of the migrations of a database. */
export const describeMigrations = (rows: readonly { name: string, checksum: string }[]) => ({
  migrations: rows.map(({ name }) => name),
  checksums: Object.fromEntries(rows.map(({ name, checksum }) => [name, checksum]))
})
