import type { Sql } from '../../platform/postgres/connect-postgres.ts'

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

/** Folder of the last complete backup; empty: none is recorded, or it was recorded without a folder. */
export async function readLastFolder (sql: Sql): Promise<string> {
  const [row] = await sql<{ folder: string }[]>`SELECT folder FROM backups WHERE error = '' ORDER BY started_at DESC LIMIT 1`
  return row?.folder ?? ''
}
