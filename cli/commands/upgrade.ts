import path from 'node:path'
import type { Command } from 'commander'
import { readTier, type TierName, type TierUrls } from '../../api/status/read-status.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { OLDEST_NATS_SERVER } from '../../platform/nats/nats-server-floor.ts'
import { findStreamChanges, type StreamChange } from '../../platform/nats/prepare-jetstream.ts'
import { findOldServers, type OldServer } from '../../platform/nats/server-versions.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import {
  type AppliedMigration, type Migration, readAppliedOfPostgres, readMigrations, refuseToGoBack, selectPending
} from '../../schema/migrate/read-migrations.ts'
import { changedFilesByHand, howToApply, type Query, readSchemaVersion } from '../../schema/migrate/schema-versions.ts'
import { compareVersions, readVersion } from '../../schema/version.ts'
import type { StreamLimits } from '../../schema/wire/streams.ts'
import { loadStreamLimits } from '../backup/load-backup.ts'
import type { CliContext } from '../cli-context.ts'
import { collectStrings } from '../read-arguments.ts'
import { JSON_OPTION, type Output } from '../terminal-output.ts'
import { findTiers } from './status.ts'

/** Exit code of `upgrade --check` when something is to be done. */
export const UPGRADE_WAITS = 4

interface UpgradeOptions extends Output {
  check: true
  ingest?: string[]
  pipeline?: string[]
  api?: string[]
}

/** `millrace upgrade --check`: what an upgrade to this version will do, before it is done. */
export function addUpgradeCommands (program: Command, context: CliContext): void {
  program.command('upgrade')
    .description('say what an upgrade of the running system to this version will do, with the settings that its processes will get;\n' +
      'changes nothing. Exits with 0 when nothing is to be done, with 4 when something is, with 1 when a newer version runs')
    .requiredOption('--check', 'say it; "start" and "migrate" do it')
    .option('--ingest <url>', 'address of an ingest process; separate several by commas', collectStrings)
    .option('--pipeline <url>', 'address of a pipeline process; separate several by commas', collectStrings)
    .option('--api <url>', 'address of an API process; separate several by commas', collectStrings)
    .option(...JSON_OPTION)
    .action(async ({ check, json, ...given }: UpgradeOptions) => {
      const [sql, clickhouse, nats] = await Promise.all([context.postgres(), context.clickhouse(), context.nats()])
      const plan = await checkUpgrade({
        sql, clickhouse, nats, tiers: await findTiers(context.env, given), streams: loadStreamLimits(context.env)
      })
      context.stdout.write(json === true ? `${JSON.stringify(plan, null, 2)}\n` : drawPlan(plan))
      if (hasWork(plan)) context.exitCode = UPGRADE_WAITS
    })
}

function hasWork (plan: UpgradePlan): boolean {
  const { processes, migrations, streams, filesByHand, oldNatsServers, databaseVersion } = plan
  return migrations.length + streams.length + oldNatsServers.length > 0 || processes.some(({ isOlder }) => isOlder) ||
    // Without a record it is unknown whether they were applied.
    (databaseVersion !== null && filesByHand.length > 0)
}

function drawPlan (plan: UpgradePlan): string {
  const { version, databaseVersion, processes, migrations, streams, filesByHand, oldNatsServers } = plan
  const older = processes.filter(({ isOlder }) => isOlder)
  return [
    `this program     Millrace ${version}`,
    `databases        ${databaseVersion === null ? 'migrated by a version that did not record itself' : `migrated by Millrace ${databaseVersion}`}`,
    ...list('processes', processes.map(({ tier, version, url, isOlder }) => `${tier} ${version} at ${url}${isOlder ? ', to be replaced' : ''}`), 'none answers'),
    ...list('migrations', migrations.map(({ name, work, tables }) => `${name}: ${describeWork(work, tables)}`), 'none waits'),
    ...list('streams', streams.map(({ stream, field, from, to }) => field === undefined
      ? `${stream} is created`
      : `${stream}: ${field} ${JSON.stringify(from)} becomes ${JSON.stringify(to)}`), 'stay as they are'),
    ...list('nats-servers', oldNatsServers.map(({ server, version }) =>
      `${version || 'unknown version'} at ${server}: first replace it by ${OLDEST_NATS_SERVER} or newer, or set MILLRACE_OLD_NATS_SERVER=accept (docs/reference/guarantees.md)`), 'new enough'),
    ...list('by hand', filesByHand.map((file) => `${file}: ${howToApply(file)}`), 'nothing'),
    '',
    hasWork(plan)
      ? `Next: a backup, "millrace migrate"${filesByHand.length > 0 ? ', what is by hand' : ''}, then replace the processes: pipeline, api, ingest.${older.length > 0 ? ` ${older.length} of an older version still run.` : ''}`
      : 'Nothing is to be done.',
    ''
  ].join('\n')
}

function list (title: string, lines: readonly string[], none: string): string[] {
  const shown = lines.length === 0 ? [none] : lines
  return shown.map((line, index) => `${(index === 0 ? title : '').padEnd(17)}${line}`)
}

function describeWork (work: 'rows' | 'declaration', tables: readonly { table: string, rows: number }[]): string {
  const named = tables.map(({ table, rows }) => `${table} (${Math.round(rows).toLocaleString('en')} rows)`).join(', ')
  if (work === 'declaration' || tables.length === 0) return named === '' ? 'something new' : `declarations only, of ${named}`
  return `reads or rewrites rows of ${named}`
}

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

interface PendingMigration {
  /** Prefixed with its database. */
  name: string
  /** Whether rows are read or rewritten, or only declarations change, which takes no time. */
  work: 'rows' | 'declaration'
  /** Existing tables that it names, with their rows now (an estimate in Postgres). */
  tables: { table: string, rows: number }[]
}

interface UpgradeConnections {
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
async function checkUpgrade (connections: UpgradeConnections): Promise<UpgradePlan> {
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
  const migrations = await readMigrations(path.join(import.meta.dirname, '..', '..', 'schema', database))
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
