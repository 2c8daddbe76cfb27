import type { Logger } from 'pino'
import { type BackupSummary, readBackupSummary } from '../../platform/backup-records.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'

/** Interval of reading the records of backups, in milliseconds: whoever sees one fail looks at the status next. */
const INTERVAL_MS = 2000

/** A backup may be late by this many intervals: it takes its time, and the next one waits for it. */
const LATE_INTERVALS = 2

export interface BackupWatch extends Pick<IntervalLoop, 'stop'> {
  /** Empty where no backups are scheduled and none was ever made. */
  parts: () => HealthPart[]
}

/**
 * Watches how old the last backup is and whether the last one failed.
 *
 * @param options.intervalMs  Interval of scheduled backups; 0 without a schedule.
 */
export function watchBackups ({ sql, intervalMs, metrics, logger }: {
  sql: Sql, intervalMs: number, metrics: Metrics, logger: Logger
}): BackupWatch {
  const startedAt = Date.now()
  let known: BackupSummary = { last: null, failures: 0, lastError: '', lastWarning: '' }
  // Without any backup the age is that of the process, so that an alert on the age fires.
  const ageMs = (): number => Date.now() - (known.last?.startedAt.getTime() ?? startedAt)

  metrics.gaugeFrom('backup_age_seconds', 'Seconds since the last complete backup, else the process, began.',
    () => ageMs() / 1000)
  metrics.gaugeFrom('backup_interval_seconds', 'Interval of scheduled backups; 0: none are scheduled.', () => intervalMs / 1000)
  metrics.gaugeFrom('backup_duration_seconds', 'Duration of the last complete backup.',
    () => known.last === null ? 0 : (known.last.endedAt.getTime() - known.last.startedAt.getTime()) / 1000)
  metrics.gaugeFrom('backup_bytes', 'Size of the last complete backup.', () => known.last?.bytes ?? 0)
  metrics.gaugeFrom('backup_failed', '1 while the most recent backup has failed.', () => known.lastError === '' ? 0 : 1)
  metrics.gaugeFrom('backup_warned', '1 while the most recent backup succeeded with a warning.',
    () => known.lastWarning === '' ? 0 : 1)
  metrics.gaugeFrom('backup_failures', 'Failed backups among the last 1,000.', () => known.failures)

  const { stop } = runAtIntervals({
    everyMs: INTERVAL_MS,
    logger,
    failure: 'could not read the records of backups',
    run: async () => { known = await readBackupSummary(sql) }
  })
  return {
    stop,
    parts () {
      if (intervalMs === 0 && known.last === null && known.lastError === '') return []
      const isLate = intervalMs > 0 && ageMs() > LATE_INTERVALS * intervalMs
      return [{
        name: 'backup',
        healthy: !isLate && known.lastError === '',
        lastAt: known.last?.startedAt.toISOString() ?? null,
        lastWarning: known.lastWarning === '' ? null : known.lastWarning,
        lastError: known.lastError === '' ? isLate ? 'the last backup is too old' : null : known.lastError
      }]
    }
  }
}
