/** Stores with an export, and readers of what it wrote. */
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { DuckDBInstance } from '@duckdb/node-api'
import { type ClickHouse, queryRows } from '../../../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../../../platform/logger.ts'
import { createMetrics } from '../../../../platform/metrics.ts'
import type { Sql } from '../../../../platform/postgres/connect-postgres.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { findSettledMoment } from '../../../persons/deletion/event-removals.ts'
import { startWindows } from '../../run-closed-windows.ts'
import { createListExports, type ExportDeps } from '../export-tasks.ts'
import type { Manifest } from '../export-manifest.ts'

export const DAY = '2026-05-04'
/** A time of the day on which everything happens. */
export const at = (time: string): string => `${DAY} ${time}:00.000`

export interface Stores { sql: Sql, clickhouse: ClickHouse }

/** Makes project 1 an export of hourly windows from 06:00 on. */
export async function createExport (
  sql: Sql, fields: {
    target?: { kind: string, secret_access_key?: string }, filter?: object | null, tables?: string[], name?: string
  } = {}
): Promise<{ id: number, folder: string }> {
  const { target: { secret_access_key: secret = '', ...target } = { kind: 'folder' }, filter = null, tables = ['events'], name = 'warehouse' } = fields
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one'), (2, 'two') ON CONFLICT DO NOTHING`
  const [row] = await sql<[{ id: number, folder: string }]>`
    INSERT INTO exports (project_id, name, schedule, target, secure_value, filter, tables, created_at) VALUES (1, ${name}, 'hour',
      ${sql.json(target)}::jsonb, ${secret}, ${filter === null ? null : sql.json(filter)}::jsonb, ${sql.json(tables)}::jsonb, ${`${at('06:30')}Z`})
    RETURNING id, concat(project_id, '/', name, '-', key) AS folder`
  return row
}

export function startExports (
  { sql, clickhouse }: Stores, options: { folder: string, owner?: string, leaseMs?: number } & Partial<ExportDeps>
): ReturnType<typeof startWindows> {
  const { folder, owner = randomUUID(), leaseMs = 2000, ...deps } = options
  const listExports = createListExports({ sql, clickhouse, cluster: '', folder, metrics: createMetrics('test'), ...deps })
  const logger = createLogger({ component: 'test', level: process.env['LOG'] === undefined ? 'silent' : 'info' })
  const kinds = [{ list: listExports, limit: Infinity }]
  return startWindows({ sql, clickhouse, owner, kinds, roundMs: 100, leaseMs, logger })
}

export async function completeThrough (clickhouse: ClickHouse, time: string): Promise<void> {
  await clickhouse.command({
    query: 'INSERT INTO watermark_reached SELECT 0, {through: DateTime64(3)}, tuple(now64(3), \'\')',
    query_params: { through: at(time) }
  })
}

/**
 * Inserts events and waits until they are settled: a window looks for rows from before the oldest insert that runs,
 * which may be another test's; later rows are found by the next window.
 */
export async function insertEvents (
  clickhouse: ClickHouse, count: number, row: (index: number) => Record<string, unknown>
): Promise<void> {
  await clickhouse.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: Array.from({ length: count }, (_, index) => ({
      project_id: 1, uuid: randomUUID(), event: 'order paid', distinct_id: `user-${index % 7}`, timestamp: at('06:10'),
      properties: JSON.stringify({ amount: index, note: 'ä"\\\n' }), groups: { company: 'acme' }, ...row(index)
    }))
  })
  const insertedAt = Date.now()
  await waitFor(async () => await findSettledMoment({ clickhouse }) > insertedAt)
}

/** Rows of a query of DuckDB over the files of a folder, as one table. */
export async function askDuckDb (query: string): Promise<Record<string, unknown>[]> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    return (await connection.runAndReadAll(query)).getRowObjectsJson()
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

/** Rows of a query of ClickHouse in a process of its own: the kernel confines the server of tests to its own files. */
export async function askLocalClickHouse (query: string): Promise<Record<string, unknown>[]> {
  const script = 'process.stdout.write(require("chdb").query(process.argv[1], "JSONEachRow"))'
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script, query])
  return stdout.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line))
}

export const duckTable = (folder: string, table = 'events'): string =>
  `read_parquet('${folder}/${table}/**/*.parquet', hive_partitioning = true, union_by_name = true)`

/** Every manifest below a folder, by position in its chain. */
export async function readManifests (folder: string): Promise<(Manifest & { file: string })[]> {
  const files = await readdir(folder, { recursive: true })
  const manifests = await Promise.all(files.filter((file) => file.endsWith('.manifest.json'))
    .map(async (file) => ({ file, ...JSON.parse(await readFile(path.join(folder, file), 'utf8')) as Manifest })))
  return manifests.sort((a, b) => a.sequence - b.sequence)
}

/** Uuid, times and properties of the events that are stored and that were exported. */
export async function compareEvents (clickhouse: ClickHouse, folder: string, where = '1'): Promise<[string[], string[]]> {
  const stored = await queryRows<{ row: string }>(clickhouse, `
    SELECT concat(toString(uuid), ' ', event, ' ', distinct_id, ' ', toString(person_id), ' ',
      toString(toUnixTimestamp64Milli(timestamp)), ' ', toString(toUnixTimestamp64Milli(received_at)), ' ', properties, ' ',
      toString(sample_weight), ' ', if(is_bot, 'true', 'false')) AS row
    FROM events WHERE project_id = 1 AND ${where} ORDER BY row`)
  const exported = await askDuckDb(`
    SELECT concat(uuid, ' ', event, ' ', distinct_id, ' ', person_id, ' ', epoch_ms(timestamp), ' ', epoch_ms(received_at), ' ',
      properties, ' ', CAST(sample_weight AS INTEGER), ' ', is_bot) AS row
    FROM ${duckTable(folder)} ORDER BY row`)
  const sorted = (rows: readonly Record<string, unknown>[]): string[] => rows.map(({ row }) => String(row)).sort()
  return [sorted(stored), sorted(exported)]
}
