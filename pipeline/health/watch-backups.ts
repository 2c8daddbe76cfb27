import type { Logger } from 'pino'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import type { IntervalLoop } from '../../platform/intervals.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { RunAnnounced } from '../announced-work.ts'

/** Interval of reading the records of backups while that fails, in milliseconds. */
const INTERVAL_MS = 2000

/** A backup may be late by this many intervals: it takes its time, and the next one waits for it. */
const LATE_INTERVALS = 2

interface BackupSummary {
  /** Of the last complete one; null: none. Skips those from the future: a clock was wrong, and their age is unknown. */
  startedAt: Date | null
  /** Duration of that, in seconds, and its size. */
  seconds: number
  bytes: number
  failures: number
  /** Error of the last one; empty if it is complete or missing. */
  lastError: string
  /** Of the last one; empty: it failed, or there is nothing to do. */
  lastWarning: string
}

export interface BackupWatch extends Pick<IntervalLoop, 'stop'> {
  /** Empty where no backups are scheduled and none was ever made. */
  parts: () => HealthPart[]
}

/**
 * Watches how old the last backup is and whether the last one failed.
 *
 * @param options.intervalMs  Interval of scheduled backups; 0 without a schedule.
 */
export function watchBackups ({ sql, run, intervalMs, metrics, logger }: {
  sql: Sql, run: RunAnnounced, intervalMs: number, metrics: Metrics, logger: Logger
}): BackupWatch {
  const startedAt = Date.now()
  let known: BackupSummary = { startedAt: null, seconds: 0, bytes: 0, failures: 0, lastError: '', lastWarning: '' }
  // Without any backup the age is that of the process, so that an alert on the age fires.
  const ageMs = (): number => Date.now() - (known.startedAt?.getTime() ?? startedAt)

  metrics.gaugeFrom('backup_age_seconds', 'Seconds since the last complete backup began; without one, since this process began.',
    () => ageMs() / 1000)
  metrics.gaugeFrom('backup_interval_seconds', 'Interval of scheduled backups; 0: none are scheduled.', () => intervalMs / 1000)
  metrics.gaugeFrom('backup_duration_seconds', 'Duration of the last complete backup.', () => known.seconds)
  metrics.gaugeFrom('backup_bytes', 'Size of the last complete backup.', () => known.bytes)
  metrics.gaugeFrom('backup_failed', '1 while the most recent backup has failed.', () => known.lastError === '' ? 0 : 1)
  metrics.gaugeFrom('backup_warned', '1 while the most recent backup succeeded with a warning.',
    () => known.lastWarning === '' ? 0 : 1)
  metrics.gaugeFrom('backup_failures', 'Failed backups among the last 1,000.', () => known.failures)

  const { stop } = run({
    everyMs: INTERVAL_MS,
    logger,
    failure: 'could not read the records of backups',
    async run () {
      known = await readBackupSummary(sql)
      return false
    }
  })
  return {
    stop,
    parts () {
      if (intervalMs === 0 && known.startedAt === null && known.lastError === '') return []
      const isLate = intervalMs > 0 && ageMs() > LATE_INTERVALS * intervalMs
      return [{
        name: 'backup',
        healthy: !isLate && known.lastError === '',
        lastAt: known.startedAt?.toISOString() ?? null,
        lastWarning: known.lastWarning === '' ? null : known.lastWarning,
        lastError: known.lastError === '' ? isLate ? 'the last backup is too old' : null : known.lastError
      }]
    }
  }
}

export async function readBackupSummary (sql: Sql): Promise<BackupSummary> {
  const [summary] = await sql<[BackupSummary]>`
    SELECT done.started_at AS "startedAt", coalesce(extract(epoch FROM done.ended_at - done.started_at), 0)::float8 AS seconds,
      coalesce(done.bytes, 0)::float8 AS bytes, (SELECT count(*)::int FROM backups WHERE error <> '') AS failures,
      coalesce(newest.error, '') AS "lastError", coalesce(newest.warning, '') AS "lastWarning"
    FROM (VALUES (1)) AS one
      LEFT JOIN LATERAL (SELECT * FROM backups WHERE error = '' AND started_at <= now() ORDER BY started_at DESC LIMIT 1) AS done ON true
      LEFT JOIN LATERAL (SELECT * FROM backups ORDER BY id DESC LIMIT 1) AS newest ON true`
  return summary
}
