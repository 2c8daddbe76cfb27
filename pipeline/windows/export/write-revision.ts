/**
 * Writes one revision of a window of a table, so that a crash between any two steps is made good by the next run:
 *
 * 1. the number of files and the persons in them are recorded in Postgres
 * 2. each file is made in the scratch folder, and appears whole in the target; one that is there stays, and counts
 * 3. the manifest appears: it names the files, and the manifest before it by SHA-256
 * 4. files of the revision before are removed
 * 5. the revision is recorded as written
 */
import { hash, randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql, SqlTemplates } from '../../../platform/postgres/connect-postgres.ts'
import type { Semaphore } from '../../../platform/semaphore.ts'
import { findSettledMoment } from '../../persons/deletion/event-removals.ts'
import {
  type ExportedColumn, type ExportedTable, type ExportFilter, factsOf, filterSql, partSql, readExportColumns, windowSql
} from './export-tables.ts'
import { type FileOfManifest, type Manifest, manifestName, parseManifest, windowFolder } from './export-manifest.ts'
import { type ExportTarget, textOf } from './export-target.ts'
import { type FileFacts, queryToFile, saveFile } from './parquet-file.ts'
import { readLedgerLine } from './ledger-line.ts'

/** Rows of a file at most, about; a window of more has several. */
const FILE_ROWS = 5_000_000

/** Bytes by which a file may be larger than one that is made anew, beside its double. */
const MOST_CHANGED_BYTES = 1_073_741_824

export interface ExportSettings {
  id: number
  projectId: number
  /** Of all its files, in the target. */
  folder: string
  schedule: 'hour' | 'day'
  filter: ExportFilter | null
  columns: Partial<Record<ExportedTable, ExportedColumn[]>>
}

export interface PlannedRevision {
  id: string
  table: ExportedTable
  from: Date
  to: Date
  revision: number
  reason: string
  parts: number | null
}

export interface RevisionDeps {
  sql: Sql
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
  target: ExportTarget
  /**
   * Limits what ClickHouse reads at once, for all exports: events share its connections. A target that hangs takes no
   * place.
   */
  reading: Semaphore
  signal: AbortSignal
  /** Called between steps; for tests. */
  onStep?: ((step: string) => void | Promise<void>) | undefined
  /** Default 5,000,000. */
  fileRows?: number | undefined
}

/** Plans the next revision of a window, unless it is planned and not yet written. */
export async function planRevision (sql: SqlTemplates, revisionId: string, reason: 'erasure' | 'late_rows'): Promise<void> {
  await sql`
    INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
    SELECT export_id, table_name, window_from, window_to, revision + 1, ${reason}
    FROM export_windows WHERE id = ${revisionId} ON CONFLICT DO NOTHING`
}

/** Does nothing more when it was written before. */
export async function writeRevision (planned: PlannedRevision, job: ExportSettings, deps: RevisionDeps): Promise<void> {
  const { target, signal, onStep } = deps
  const folder = `${job.folder}/${planned.table}/${windowFolder(job.schedule, planned.from)}`
  const name = `${job.folder}/${planned.table}/${manifestName(job.schedule, planned.from, planned.revision)}`
  const stored = await target.read(name, signal)
  const found = stored === null ? null : await textOf(stored)
  let content = found
  await onStep?.('read manifest')
  if (content === null) {
    const made = JSON.stringify(await makeManifest(planned, job, deps, folder), null, 1)
    await onStep?.('write manifest')
    content = await createText(target, name, made, signal)
  }
  const manifest = parseManifest(content, name, planned)
  if (found !== null && planned.parts === null) await adopt(planned, job, deps)
  if (found !== null || planned.parts !== null) await planMissingRows(planned, job, deps, manifest)
  await onStep?.('remove files')
  await removeSuperseded(planned, job, deps, folder)
  await onStep?.('record')
  await recordWritten(planned, deps.sql, manifest, hash('sha256', content))
}

/**
 * Takes over a manifest that Postgres knows nothing of, as after its restore: erasures find the window by its persons.
 * A revision may be older than the erasure or the event that it is planned for now.
 */
async function adopt (planned: PlannedRevision, job: ExportSettings, deps: RevisionDeps): Promise<void> {
  const { id, table, reason } = planned
  if (reason === 'erasure' || reason === 'late_rows') await planRevision(deps.sql, id, reason)
  await recordContents(planned, job, deps, filterSql(table, job.filter))
}

/** Plans the next revision when events came or went between the run that made the files and this one. */
async function planMissingRows (
  planned: PlannedRevision, job: ExportSettings, deps: RevisionDeps, manifest: Manifest
): Promise<void> {
  const { rows, left_out: leftOut } = manifest
  if (planned.table !== 'events') return
  const stored = await countRows(deps, 'events', windowSql('events', job.projectId, planned))
  if (stored !== rows + leftOut) await planRevision(deps.sql, planned.id, 'late_rows')
}

async function makeManifest (
  planned: PlannedRevision, job: ExportSettings, deps: RevisionDeps, folder: string
): Promise<Manifest> {
  const { table, revision, reason } = planned
  const { sql, clickhouse, signal, onStep } = deps
  const filter = filterSql(table, job.filter)
  const where = windowSql(table, job.projectId, planned)
  const columns = await readColumns(table, job, deps)
  await onStep?.('record contents')
  const settled = await findSettledMoment(deps)
  const parts = await recordContents(planned, job, deps, filter)
  const files: FileOfManifest[] = []
  for (let index = 0; index < parts; index++) {
    const name = parts === 1 ? `r${revision}.parquet` : `r${revision}-${index + 1}.parquet`
    const query = `SELECT ${columns.select} FROM ${factsOf(table).source}
      WHERE ${where} AND ${partSql(table, index, parts)} AND ${filter}`
    files.push({ name, ...await createFile(`${folder}/${name}`, query, deps) })
  }
  // Those of replayed events that came meanwhile; copies of persons never come late.
  const cameSince = `${filter} AND inserted_at >= fromUnixTimestamp64Milli(${settled})`
  if (table === 'events') await recordContents(planned, job, deps, cameSince)
  const rows = files.reduce((sum, file) => sum + file.rows, 0)
  const leftOut = job.filter === null ? 0 : await countRows(deps, table, `${where} AND NOT ifNull(${filter}, 0)`)
  const [last] = await sql<{ sequence: number, sha256: string }[]>`
    SELECT sequence, manifest_sha256 AS sha256 FROM export_windows
    WHERE export_id = ${job.id} AND table_name = ${table} AND sequence IS NOT NULL ORDER BY sequence DESC LIMIT 1`
  return {
    format: 1,
    project: job.projectId,
    table,
    window: { from: planned.from.toISOString(), to: planned.to.toISOString() },
    revision,
    reason,
    sequence: (last?.sequence ?? 0) + 1,
    previous: last?.sha256 ?? null,
    rows,
    files,
    filter: table === 'events' ? job.filter : null,
    left_out: leftOut,
    schema_version: columns.list.length,
    columns: columns.list,
    ledger: table === 'events' ? await readLedgerLine(clickhouse, job.projectId, planned, rows + leftOut, signal) : null,
    written_at: new Date().toISOString()
  }
}

async function readColumns (
  table: ExportedTable, job: ExportSettings, { sql, clickhouse }: RevisionDeps
): ReturnType<typeof readExportColumns> {
  const known = job.columns[table] ?? []
  const columns = await readExportColumns(clickhouse, table, known)
  if (columns.list.length > known.length) {
    job.columns[table] = columns.list
    await sql`
      INSERT INTO export_state AS s (export_id, columns) VALUES (${job.id}, ${sql.json({ [table]: columns.list })}::jsonb)
      ON CONFLICT (export_id) DO UPDATE SET columns = s.columns || excluded.columns`
  }
  return columns
}

/** Reads rows of windows when it is this export's turn, unless the process is stopping by then. */
export async function inTurn<T> (
  { reading, signal }: Pick<RevisionDeps, 'reading' | 'signal'>, read: () => Promise<T>
): Promise<T> {
  return await reading.run(async () => {
    signal.throwIfAborted()
    return await read()
  })
}

async function countRows (deps: RevisionDeps, table: ExportedTable, where: string): Promise<number> {
  const [row] = await inTurn(deps, async () => await queryRows<{ count: string }>(deps.clickhouse,
    `SELECT count() AS count FROM ${factsOf(table).source} WHERE ${where}`))
  return Number(row?.count)
}

/**
 * Records the number of files, unless an earlier run did: a file that is there already has the rows of its part. Adds
 * the persons of the rows to those of earlier runs, whose files may stay. An erasure may come before files are made.
 *
 * @returns the number of files.
 */
async function recordContents (
  planned: PlannedRevision, job: ExportSettings, deps: RevisionDeps, filter: string
): Promise<number> {
  const { sql, clickhouse, fileRows = FILE_ROWS } = deps
  const { source, persons } = factsOf(planned.table)
  const person = persons.length === 1 ? persons[0] : `arrayJoin([${persons.join(', ')}])`
  const found = await inTurn(deps, async () => {
    const { stream } = await clickhouse.exec({
      query: `SELECT toUInt32(bitShiftRight(reinterpretAsUInt128(${person}), 64)) AS hash, toUInt32(count())
        FROM ${source} WHERE ${windowSql(planned.table, job.projectId, planned)} AND ${filter} GROUP BY hash FORMAT RowBinary`
    })
    return await buffer(stream)
  })
  const [{ hashes }] = await sql<[{ hashes: Buffer }]>`
    SELECT person_hashes AS hashes FROM export_windows WHERE id = ${planned.id}`
  const known = readHashes(hashes)
  const gained: number[] = []
  let rows = 0
  for (let at = 0; at < found.length; at += 8) {
    const person = found.readUInt32LE(at)
    if (!known.has(person)) gained.push(person)
    rows += found.readUInt32LE(at + 4) / persons.length
  }
  const added = Buffer.from(Uint32Array.from(gained).buffer)
  const [{ parts }] = await sql<[{ parts: number }]>`
    UPDATE export_windows SET parts = coalesce(parts, ${Math.ceil(rows / fileRows)})
      ${gained.length === 0 ? sql`` : sql`, person_hashes = person_hashes || ${added}`} WHERE id = ${planned.id} RETURNING parts`
  return parts
}

function readHashes (stored: Buffer): Set<number> {
  const hashes = new Set<number>()
  for (let at = 0; at < stored.length; at += 4) hashes.add(stored.readUInt32LE(at))
  return hashes
}

async function createFile (name: string, query: string, deps: RevisionDeps): Promise<FileFacts> {
  const { clickhouse, target, signal, onStep } = deps
  const file = path.join(target.scratch, randomUUID())
  try {
    await onStep?.('make file')
    const made = await inTurn(deps, async () => await queryToFile(clickhouse, query, file, signal))
    await onStep?.('create file')
    if (await target.create(name, file, made.sha256, signal)) return made
    // From a run that died: it is whole, and nobody may replace it. Few rows came or went since.
    return await saveFile(await openCreated(target, name, signal), file, signal, 2 * made.bytes + MOST_CHANGED_BYTES)
  } finally {
    await rm(file, { force: true })
  }
}

async function openCreated (target: ExportTarget, name: string, signal: AbortSignal): Promise<Readable> {
  const content = await target.read(name, signal)
  if (content === null) throw new Error(`${name} cannot be created in the target, nor read from it`)
  return content
}

/** @returns the text that the file has: that of another run if it came first. */
async function createText (target: ExportTarget, name: string, content: string, signal: AbortSignal): Promise<string> {
  const file = path.join(target.scratch, randomUUID())
  try {
    await writeFile(file, content, { flush: true })
    if (await target.create(name, file, hash('sha256', content), signal)) return content
    return await textOf(await openCreated(target, name, signal))
  } finally {
    await rm(file, { force: true })
  }
}

async function removeSuperseded (
  planned: PlannedRevision, job: ExportSettings, { sql, target, signal }: RevisionDeps, folder: string
): Promise<void> {
  if (planned.revision === 0) return
  const older = await sql<{ files: FileOfManifest[] }[]>`
    SELECT files FROM export_windows WHERE export_id = ${job.id} AND table_name = ${planned.table}
      AND window_from = ${planned.from} AND revision < ${planned.revision}`
  for (const { name } of older.flatMap(({ files }) => files)) await target.remove(`${folder}/${name}`, signal)
}

async function recordWritten (
  { id, from, table, revision }: PlannedRevision, sql: Sql, manifest: Manifest, sha256: string
): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`
      UPDATE export_windows SET sequence = ${manifest.sequence}, manifest_sha256 = ${sha256},
        files = ${sql.json(manifest.files)}::jsonb, rows = ${manifest.rows}, left_out = ${manifest.left_out},
        bytes = ${manifest.files.reduce((sum, { bytes }) => sum + bytes, 0)}, written_at = ${manifest.written_at}
      WHERE id = ${id}`
    await transaction`
      UPDATE export_windows SET person_hashes = '', files = '[]' WHERE table_name = ${table} AND window_from = ${from}
        AND revision < ${revision} AND export_id = (SELECT export_id FROM export_windows WHERE id = ${id})`
  })
}
