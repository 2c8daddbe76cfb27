import { applyRetention, type RetentionDeps } from '../platform/retention.ts'
import { type Logger } from '../platform/logger.ts'
import { type Metrics } from '../platform/metrics.ts'
import { startRounds } from './start-rounds.ts'

/** Rules count days; an hour later is soon enough. */
const INTERVAL_MS = 3_600_000

/** Removes at start, and every hour, what the rules of retention let go. A failed round is repeated with the next. */
export function startRetention (
  { metrics, logger, ...deps }: RetentionDeps & { metrics: Metrics, logger: Logger }
): { stop: () => Promise<void> } {
  const rounds = metrics.counter('retention_rounds_total', 'Rounds of retention.', { outcome: ['done', 'skipped', 'failed'] })
  const removed = metrics.counter('retention_removed_total', 'What retention removed: events, dead letters, whole months.', { what: ['events', 'months', 'dead_letters'] })
  return startRounds({
    intervalMs: INTERVAL_MS,
    rounds,
    async round () {
      const { skipped, partitions, events, deadLetters } = await applyRetention(deps)
      removed.inc({ what: 'events' }, events)
      removed.inc({ what: 'months' }, partitions)
      removed.inc({ what: 'dead_letters' }, deadLetters)
      if (partitions + events + deadLetters > 0) logger.info({ partitions, events, deadLetters }, 'retention removed old data')
      return skipped ? 'skipped' : 'done'
    },
    onFailure: (err) => logger.warn({ err }, 'retention waits for its next round')
  })
}
