/** Work that is repeated at intervals and counted, such as retention. */
import { type IntervalLoop, runAtIntervals } from '../platform/intervals.ts'
import type { Logger } from '../platform/logger.ts'
import type { Counter, Metrics } from '../platform/metrics.ts'
import { applyRetention, type RetentionDeps } from './apply-retention.ts'

export interface RoundsOptions {
  everyMs: number
  /** Does the work and returns its outcome, which is counted. */
  round: () => Promise<string>
  rounds: Counter<'outcome'>
  logger: Logger
  /** Message of the warning about a failed round. */
  failure: string
}

/** Repeats work at intervals and counts its rounds by outcome; one that throws counts as `failed`. */
export function startRounds ({ round, rounds, ...options }: RoundsOptions): IntervalLoop {
  async function run (): Promise<void> {
    try {
      rounds.inc({ outcome: await round() })
    } catch (error) {
      rounds.inc({ outcome: 'failed' })
      throw error
    }
  }
  return runAtIntervals({ ...options, run })
}

/** Rules of retention count days, so an hour is often enough. */
const INTERVAL_MS = 3_600_000

/** Removes what the rules of retention no longer keep: at start, then every hour. */
export function startRetention (
  { metrics, logger, ...deps }: RetentionDeps & { metrics: Metrics, logger: Logger }
): IntervalLoop {
  const rounds = metrics.counter('retention_rounds_total', 'Rounds of retention, by outcome.', { outcome: ['done', 'skipped', 'failed'] })
  const removed = metrics.counter('retention_removed_total', 'Events, dead letters and whole months of events removed by retention.', { what: ['events', 'months', 'dead_letters'] })
  return startRounds({
    everyMs: INTERVAL_MS,
    rounds,
    logger,
    failure: 'retention failed and will be retried in an hour',
    async round () {
      const { skipped, partitions, events, deadLetters } = await applyRetention(deps)
      removed.inc({ what: 'events' }, events)
      removed.inc({ what: 'months' }, partitions)
      removed.inc({ what: 'dead_letters' }, deadLetters)
      if (partitions + events + deadLetters > 0) logger.info({ months: partitions, events, deadLetters }, 'retention removed old data')
      return skipped ? 'skipped' : 'done'
    }
  })
}
