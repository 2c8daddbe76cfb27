import type { Sql } from './postgres/connect-postgres.ts'

/** What became of one backup. */
export interface BackupRecord {
  startedAt: Date
  endedAt: Date
  /** What it failed with; empty: it is complete. */
  error: string
  /** Of a complete one: what somebody should do although it was made. Empty: nothing. */
  warning?: string
  folder: string
  bytes: number
  /** Of files that it shares with an earlier backup. */
  sharedBytes: number
}

/** Summary of all backups. */
export interface BackupSummary {
  /** The last complete one, if any. Skips those from the future: a clock was wrong, and their age is unknown. */
  last: Pick<BackupRecord, 'startedAt' | 'endedAt' | 'bytes' | 'sharedBytes'> | null
  failures: number
  /** Error of the last one; empty if it is complete or missing. */
  lastError: string
  /** Of the last one; empty: it failed, or there is nothing to do. */
  lastWarning: string
}

const KEPT_RECORDS = 1000

const MAX_ERROR_LENGTH = 1000

/** Records a backup in `backups`, whatever made it: health, metrics and status read it there. */
export async function recordBackup (sql: Sql, record: BackupRecord): Promise<void> {
  const { startedAt, endedAt, folder, bytes, sharedBytes } = record
  const [error, warning] = [record.error, record.warning ?? ''].map((text) => text.slice(0, MAX_ERROR_LENGTH)) as [string, string]
  await sql`INSERT INTO backups (started_at, ended_at, error, warning, folder, bytes, shared_bytes)
    VALUES (${startedAt}, ${endedAt}, ${error}, ${warning}, ${folder}, ${bytes}, ${sharedBytes})`
  await sql`DELETE FROM backups WHERE id <= (SELECT max(id) FROM backups) - ${KEPT_RECORDS}::bigint`
}

export async function readBackupSummary (sql: Sql): Promise<BackupSummary> {
  const [{ failures, lastError, lastWarning, startedAt, ...done }] = await sql<[{
    startedAt: Date | null, endedAt: Date, bytes: number, sharedBytes: number
    failures: number, lastError: string, lastWarning: string
  }]>`
    SELECT done.started_at AS "startedAt", done.ended_at AS "endedAt", done.bytes::float8 AS bytes, done.shared_bytes::float8 AS "sharedBytes",
      (SELECT count(*)::int FROM backups WHERE error <> '') AS failures,
      coalesce(newest.error, '') AS "lastError", coalesce(newest.warning, '') AS "lastWarning"
    FROM (VALUES (1)) AS one
      LEFT JOIN LATERAL (SELECT * FROM backups WHERE error = '' AND started_at <= now() ORDER BY started_at DESC LIMIT 1) AS done ON true
      LEFT JOIN LATERAL (SELECT * FROM backups ORDER BY id DESC LIMIT 1) AS newest ON true`
  return { last: startedAt === null ? null : { startedAt, ...done }, failures, lastError, lastWarning }
}

/** Folder of the last complete backup; empty: none is recorded, or it was recorded without a folder. */
export async function readLastFolder (sql: Sql): Promise<string> {
  const [row] = await sql<{ folder: string }[]>`SELECT folder FROM backups WHERE error = '' ORDER BY started_at DESC LIMIT 1`
  return row?.folder ?? ''
}
