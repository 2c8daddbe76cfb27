/** Compares the books of the last hours with the events table. */
import { Gauge } from 'prom-client'
import { MillraceError } from '../../engines/errors.ts'
import { checkBooks, countStored, type Drift } from './check-books.ts'
import type { Books, LedgerDeps } from './read-books.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { minuteOfReceipt } from '../../schema/wire/ledger.ts'

/** Minutes of receipt that are checked: those before are for `npx millrace audit`. */
const CHECKED_MINUTES = 180

/** Ingest's clock may be ahead by so much, in minutes. */
const AHEAD_MINUTES = 60

/** Longest wait for inserts under way, in milliseconds; the next check waits again. */
const SETTLE_MS = 20_000

/** Counting takes at most this share of the time: 100 million rows of the last three hours take 2.3 s of one core. */
const COUNTING_SHARE = 0.01

/**
 * Longest pause after a count, in milliseconds: drift is seen within five minutes. Above some 11,000 events a second
 * counting takes more than its share.
 */
const LONGEST_PAUSE_MS = 270_000

/** Minutes with drift that the log names. */
const NAMED_MINUTES = 20

export interface DriftCheckOptions extends LedgerDeps {
  /** Whether this process checks: one of all is enough. */
  isChecker: () => boolean
  metrics: Metrics
  logger: Logger
  /** Epoch milliseconds. */
  now: () => number
}

/**
 * Returns a check of the books of the last hours, which sets the metrics and logs drift that it did not log before. It
 * does nothing when it is called sooner than `COUNTING_SHARE` allows.
 *
 * @throws when NATS or ClickHouse does not answer, or no minute can be compared.
 */
export function createDriftCheck (options: DriftCheckOptions): () => Promise<void> {
  const { metrics: { registry }, isChecker, now } = options
  // Of the whole deployment, so without the name of a tier.
  const drift = new Gauge({
    registers: [registry], name: 'millrace_ledger_drift_events', labelNames: ['kind'],
    help: 'Events missing or extra in the events table, by the ledger of the last three hours.'
  })
  let checkedAt = performance.now()
  const age: Gauge = new Gauge({
    registers: [registry], name: 'millrace_ledger_check_age_seconds',
    help: 'Time since the ledger was compared with events; 0 in processes that do not check.',
    collect: () => age.set(isChecker() ? (performance.now() - checkedAt) / 1000 : 0)
  })
  const show = (found: readonly Drift[]): void => {
    for (const [kind, events] of Object.entries(sumDrift(found))) drift.set({ kind }, events)
    checkedAt = performance.now()
  }
  show([])
  let logged = ''
  let pauseEnd = 0

  return async function checkDrift () {
    if (!isChecker()) return show([])
    if (performance.now() < pauseEnd) return
    const minute = minuteOfReceipt(now())
    const span = { from: minute - CHECKED_MINUTES, to: minute + AHEAD_MINUTES }
    const { drift: found, books } = await checkBooks(options, span, {
      settleMs: SETTLE_MS,
      countStored: async (each) => {
        const begin = performance.now()
        const stored = await countStored(options, each)
        const end = performance.now()
        pauseEnd = end + Math.min(LONGEST_PAUSE_MS, (end - begin) / COUNTING_SHARE)
        return stored
      }
    })
    // What compares nothing must not look like what finds nothing.
    if (books.positions.size > 0 && books.openedAt >= span.to) throw noBooksError(books)
    show(found)
    logged = logDrift(found, logged, options.logger)
  }
}

function noBooksError ({ positions, openedAt }: Books): MillraceError {
  const partitions = [...positions].filter(([, each]) => each.openedAt === openedAt).map(([partition]) => partition)
  return new MillraceError('MILLRACE_LEDGER_NOT_COMPARED',
    `no minute can be compared: the books of ${partitions.join(', ')} are not complete yet`,
    { action: 'retry', details: { partitions } })
}

/** Logs drift when it changed. */
function logDrift (found: readonly Drift[], logged: string, logger: Logger): string {
  const minutes = found.slice(0, NAMED_MINUTES).map(({ projectId, minute, missing, extra }) =>
    ({ projectId, minute: new Date(minute * 60_000).toISOString(), missing, extra }))
  const text = JSON.stringify(minutes)
  if (text === logged) return logged
  const { missing, extra } = sumDrift(found)
  if (found.length > 0) {
    logger.error({ minutes, of: found.length },
      `ledger drift detected: ${missing} events missing, ${extra} extra; see "npx millrace audit"`)
  } else if (logged !== '' && logged !== '[]') logger.info('ledger drift resolved')
  return text
}

function sumDrift (found: readonly Drift[]): { missing: number, extra: number } {
  return {
    missing: found.reduce((sum, { missing }) => sum + missing, 0),
    extra: found.reduce((sum, { extra }) => sum + extra, 0)
  }
}
