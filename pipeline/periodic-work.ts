/** Work that is done at intervals; retention is all that stands here itself. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Logger } from '../platform/logger.ts'
import { type Counter, type Metrics } from '../platform/metrics.ts'
import { applyRetention, type RetentionDeps } from '../platform/retention.ts'

/** How long the end of the process waits for a round, in milliseconds: each is repeatable, so nothing is lost by it. */
const STOP_MS = 1000

export interface RoundsOptions {
  /** From the begin of a round to the begin of the next one, in milliseconds. */
  intervalMs: number
  /** Does the work; answers how it ended, which is counted. */
  round: () => Promise<string>
  /** Counts rounds by how they ended. */
  rounds: Counter<'outcome'>
  /** Told why a round failed. The next one comes at its time all the same. */
  onFailure: (error: unknown) => void
}

/** Does work at once and then at every interval, never twice at a time, until stopped. */
export function startRounds ({ intervalMs, round, rounds, onFailure }: RoundsOptions): { stop: () => Promise<void> } {
  async function doRound (): Promise<void> {
    try {
      rounds.inc({ outcome: await round() })
    } catch (error) {
      rounds.inc({ outcome: 'failed' })
      onFailure(error)
    }
  }

  let running = doRound()
  const timer = setInterval(() => { running = running.then(doRound) }, intervalMs)
  return {
    async stop () {
      clearInterval(timer)
      await Promise.race([running, delay(STOP_MS, undefined, { ref: false })])
    }
  }
}

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
