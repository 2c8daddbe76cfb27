import path from 'node:path'
import type { ClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import type { NatsConnection } from '../platform/nats/connect-nats.ts'
import { findStreamChanges, type StreamChange } from '../platform/nats/prepare-jetstream.ts'
import { findOldServers, type OldServer } from '../platform/nats/server-versions.ts'
import type { Sql } from '../platform/postgres/connect-postgres.ts'
import { readTier, type TierName, type TierUrls } from '../api/status/read-status.ts'
import {
  type AppliedMigration, type Migration, readAppliedOfPostgres, readMigrations, refuseToGoBack, selectPending
} from '../schema/migrate/read-migrations.ts'
import { changedFilesByHand, type Query, readSchemaVersion } from '../schema/migrate/schema-versions.ts'
import type { StreamLimits } from '../schema/wire/streams.ts'
import { compareVersions, readVersion } from '../schema/version.ts'

/** What an upgrade to this version would do to a running system. */
export interface UpgradePlan {
  /** Of this program. */
  version: string
  /** Version that migrated the databases last; null when none recorded itself. */
  databaseVersion: string | null
  /** Processes that answer. */
  processes: { tier: TierName, url: string, version: string, isOlder: boolean }[]
  /** In the order in which they would be applied. */
  migrations: PendingMigration[]
  streams: StreamChange[]
  /** Files to apply by hand where each tier has a login of its own, changed since the version of the database. */
  filesByHand: string[]
  /** Those that this version refuses, unless it is told to accept them. */
  oldNatsServers: OldServer[]
}

export interface PendingMigration {
  /** Prefixed with its database. */
  name: string
  /** Whether rows are read or rewritten, or only declarations change, which takes no time. */
  work: 'rows' | 'declaration'
  /** Existing tables that it names, with their rows now (an estimate in Postgres). */
  tables: { table: string, rows: number }[]
}

export interface UpgradeConnections {
  sql: Sql
  clickhouse: ClickHouse
  nats: NatsConnection
  tiers: TierUrls
  streams: StreamLimits
}

/** Statements that read or rewrite the rows of a table; everything else changes declarations. */
const ROW_WORK = /\b(MATERIALIZE|UPDATE|DELETE|INSERT|CREATE (UNIQUE )?INDEX|ALTER COLUMN \w+ (SET DATA )?TYPE|SET NOT NULL|FOREIGN KEY|CHECK)\b/i

/**
 * Finds out what an upgrade would do; changes nothing.
 *
 * @throws {MigrationError} `MILLRACE_DATABASE_NEWER` or `MILLRACE_MIGRATION_UNKNOWN` when a newer version migrated
 * the databases.
 */
export async function checkUpgrade (connections: UpgradeConnections): Promise<UpgradePlan> {
  const { sql, clickhouse, nats, tiers, streams } = connections
  const version = readVersion()
  const known = await readSchemaVersion(askWith(sql))
  refuseToGoBack(known)
  const migrations = await Promise.all([findPendingOfPostgres(sql), findPendingOfClickHouse(clickhouse)])
  const readings = (['ingest', 'pipeline', 'api'] as const)
    .flatMap((tier) => tiers[tier].map(async (url) => await readTier(tier, url)))
  return {
    version,
    databaseVersion: known?.version ?? null,
    processes: (await Promise.all(readings)).flatMap(({ tier, url, metrics }) =>
      [...metrics.by(`millrace_${tier}_build_info`, 'version').keys()]
        .map((running) => ({ tier, url, version: running, isOlder: compareVersions(running, version) < 0 }))),
    migrations: migrations.flat(),
    streams: await findStreamChanges(nats, streams),
    // Of a database without a record it is unknown: better once too often.
    filesByHand: await changedFilesByHand(known),
    oldNatsServers: await findOldServers(nats)
  }
}

function askWith (sql: Sql): Query {
  return async (text, parameters) => ({ rows: await sql.unsafe(text, parameters) })
}

async function findPendingOfPostgres (sql: Sql): Promise<PendingMigration[]> {
  const tables = await sql<{ table: string, rows: number }[]>`
    SELECT relname AS table, greatest(reltuples, 0)::float8 AS rows FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`
  return await describePending('postgres', await readAppliedOfPostgres(askWith(sql)), tables)
}

async function findPendingOfClickHouse (clickhouse: ClickHouse): Promise<PendingMigration[]> {
  const ask = async <T>(query: string): Promise<T[]> => await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<T>()
  const tables = await ask<{ table: string, rows: string | null }>(`SELECT name AS table, total_rows AS rows FROM system.tables
    WHERE database = currentDatabase() AND engine LIKE '%MergeTree'`)
  const applied = tables.some(({ table }) => table === 'schema_migrations')
    ? await ask<AppliedMigration>('SELECT name, checksum FROM schema_migrations FINAL')
    : []
  return await describePending('clickhouse', applied, tables.map(({ table, rows }) => ({ table, rows: Number(rows) })))
}

async function describePending (
  database: 'postgres' | 'clickhouse', applied: readonly AppliedMigration[], tables: PendingMigration['tables']
): Promise<PendingMigration[]> {
  const migrations = await readMigrations(path.join(import.meta.dirname, '..', 'schema', database))
  return selectPending(database, migrations, applied).map((migration) => describeMigration(database, migration, tables))
}

/** What a migration would do to the tables that there are. */
export function describeMigration (
  database: 'postgres' | 'clickhouse', { name, sql }: Migration, tables: PendingMigration['tables']
): PendingMigration {
  const statements = sql.replaceAll(/--.*$|'(?:[^']|'')*'/gm, '')
  return {
    name: `${database}/${name}`,
    work: ROW_WORK.test(statements) ? 'rows' : 'declaration',
    tables: tables.filter(({ table }) => new RegExp(`\\b${table}\\b`).test(statements))
  }
}
