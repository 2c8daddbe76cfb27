import { type IntervalLoop, runAtIntervals } from '../platform/intervals.ts'
import { type Logger } from '../platform/logger.ts'
import { type Counter, type Metrics } from '../platform/metrics.ts'
import { applyRetention, type RetentionDeps } from '../platform/retention.ts'

export interface RoundsOptions {
  everyMs: number
  /** Does the work; answers how it ended, which is counted. */
  round: () => Promise<string>
  /** Counts rounds by how they ended. */
  rounds: Counter<'outcome'>
  logger: Logger
  /** Message of the warning that tells of a failed round. */
  failure: string
}

/** Work at intervals whose rounds are counted by how they ended; `failed` when one throws. */
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

/** Rules count days; an hour later is soon enough. */
const INTERVAL_MS = 3_600_000

/** Removes at start, and every hour, what the rules of retention let go. A failed round is repeated with the next. */
export function startRetention (
  { metrics, logger, ...deps }: RetentionDeps & { metrics: Metrics, logger: Logger }
): IntervalLoop {
  const rounds = metrics.counter('retention_rounds_total', 'Rounds of retention.', { outcome: ['done', 'skipped', 'failed'] })
  const removed = metrics.counter('retention_removed_total', 'What retention removed: events, dead letters, whole months.', { what: ['events', 'months', 'dead_letters'] })
  return startRounds({
    everyMs: INTERVAL_MS,
    rounds,
    logger,
    failure: 'could not apply retention; retrying with the next round',
    async round () {
      const { skipped, partitions, events, deadLetters } = await applyRetention(deps)
      removed.inc({ what: 'events' }, events)
      removed.inc({ what: 'months' }, partitions)
      removed.inc({ what: 'dead_letters' }, deadLetters)
      if (partitions + events + deadLetters > 0) logger.info({ partitions, events, deadLetters }, 'retention removed old data')
      return skipped ? 'skipped' : 'done'
    }
  })
}
