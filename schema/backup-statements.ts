/** The SQL of backups and restores. Texts only; `cli/backup` runs them. */
import { quoteIdentifier, quoteString } from 'chdb-server/sql-lexer'

/** A column of a table of ClickHouse. */
export type ColumnOfTable = Record<'name' | 'type' | 'kind' | 'expression' | 'comment' | 'codec', string>

export const addColumn = (table: string, { name, type, kind, expression, comment, codec }: ColumnOfTable, onCluster = ''): string =>
  `ALTER TABLE ${table} ${onCluster} ADD COLUMN IF NOT EXISTS ${quoteIdentifier(name)} ${type} ${kind} ${expression} COMMENT ${quoteString(comment)} ${codec}`

/** Where the books of a backup are taken from: a copy of `events` made of hard links. */
export const COPY_DATABASE = 'millrace_backup'

/** Databases that are not of the server itself, nor of a backup. */
const NOT_OF_THE_SERVER = `NOT IN ('system', 'information_schema', 'INFORMATION_SCHEMA', 'chdb_server', '${COPY_DATABASE}')`

export interface DatabaseRow { name: string, engine: string }
export const LIST_DATABASES = `SELECT name, engine FROM system.databases WHERE name ${NOT_OF_THE_SERVER} ORDER BY name`

/** A table, a view or a dictionary. */
export interface ObjectRow {
  database: string
  name: string
  engine: string
  /** Whether its database is the one of Millrace. */
  isOwn: 0 | 1
  /** Empty: it has no folder. */
  dataPath: string
  /** Null: unknown. */
  rows: number | null
  /** Whether it keeps rows on the disk. */
  hasData: 0 | 1
}

/** Views come last: they may keep their rows in a table that is made for them. */
export const LIST_OBJECTS = `SELECT database, name, engine, database = currentDatabase() AS isOwn,
    data_paths[1] AS dataPath, toFloat64(total_rows) AS rows, has_own_data AS hasData
  FROM system.tables WHERE database IN {databases: Array(String)} ORDER BY engine LIKE '%View', database, name`
/** Tables that somebody detached, and parts; ClickHouse gives a reason to parts that it detaches itself. */
export const LIST_DETACHED = `SELECT database, table AS name, 'detached' AS what FROM system.detached_tables
  WHERE database IN (SELECT name FROM system.databases WHERE engine = 'Atomic' AND name ${NOT_OF_THE_SERVER})
  UNION ALL SELECT database, table, concat(toString(count()), ' detached parts') FROM system.detached_parts
  WHERE reason = '' AND database ${NOT_OF_THE_SERVER} GROUP BY ALL`
/** Objects in the database of Millrace, and the other databases. */
export const LIST_NAMES = `SELECT concat('table ', name) AS what FROM system.tables WHERE database = currentDatabase() AND NOT startsWith(name, '.')
  UNION ALL SELECT concat('database ', name) FROM system.databases
  WHERE name ${NOT_OF_THE_SERVER} AND name NOT IN ('default', currentDatabase(), concat(currentDatabase(), '_all'))`
export const LIST_COLUMNS = `SELECT name, type, default_kind AS kind, default_expression AS expression, comment, compression_codec AS codec
  FROM system.columns WHERE database = {database: String} AND table = {name: String} ORDER BY position`
export const COUNT_ROWS = `SELECT sum(rows) AS rows FROM system.parts
  WHERE active AND database = {database: String} AND table = {name: String}`
export const LIST_MIGRATIONS = 'SELECT name, checksum FROM schema_migrations FINAL ORDER BY name'
export const READ_VERSION = 'SELECT version() AS version'

/** @param table  With its database, quoted; as in the next ones. */
export const freezeTable = (table: string, name: string): string => `ALTER TABLE ${table} FREEZE WITH NAME '${name}'`
export const attachPart = (table: string, part: string): string => `ALTER TABLE ${table} ATTACH PART ${quoteString(part)}`
export const setMerges = (table: string, how: 'STOP' | 'START'): string => `SYSTEM ${how} MERGES ${table}`

export const COPY_EVENTS = [
  `CREATE DATABASE ${COPY_DATABASE}`, `CREATE TABLE ${COPY_DATABASE}.events AS events`, `ALTER TABLE ${COPY_DATABASE}.events ATTACH PARTITION ALL FROM events`
]
export const DROP_COPY = `DROP DATABASE IF EXISTS ${COPY_DATABASE} SYNC`

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
  /** Nothing where there is no such sequence: one of users. */
  setSequence: "SELECT setval(to_regclass(format('public.%I', $1::text)), $2::text::bigint)",
  /** Databases, and objects that are in schemas of users or are not tables. */
  listOthers: `SELECT format('database %I', datname) AS what FROM pg_database WHERE NOT datistemplate AND datname NOT IN (current_database(), 'postgres')
    UNION ALL SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^(pg_|information_schema$)' AND (c.relkind IN ('p', 'v', 'm', 'f') OR (c.relkind = 'r' AND n.nspname <> 'public'))
    ORDER BY 1`,
  /** But for those of the first parameter. */
  listTables: `SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
      AND NOT a.attisdropped AND a.attgenerated = '' AND c.relname <> ALL ($1::text[])
    GROUP BY 1 ORDER BY 1`,
  /** Disables triggers and foreign keys, as rows arrive table by table; together they are consistent. */
  disableTriggers: 'SET LOCAL session_replication_role = replica',
  truncate: (tables: readonly string[]): string => `TRUNCATE ${quoteNames(tables)} CASCADE`,
  countRows: (table: string): string => `SELECT count(*) AS rows FROM ${quoteNames([table])}`,
  copyOut: (table: string, columns: readonly string[]): string => `COPY ${quoteNames([table])} (${quoteNames(columns)}) TO STDOUT`,
  copyIn: (table: string, columns: readonly string[]): string => `COPY ${quoteNames([table])} (${quoteNames(columns)}) FROM STDIN`
} as const

const quoteNames = (names: readonly string[]) => names.map((name) => `"${name.replaceAll('"', '""')}"`).join(', ')

/** What a backup says of the migrations of a database. */
export const describeMigrations = (rows: readonly { name: string, checksum: string }[]) => ({
  migrations: rows.map(({ name }) => name),
  checksums: Object.fromEntries(rows.map(({ name, checksum }) => [name, checksum]))
})
