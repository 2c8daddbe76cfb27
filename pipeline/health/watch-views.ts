/** Watches for materialized views of users that fail in inserts of ours. */
import { listUserViews, readFailedView, readLastErrors } from '../events/insert/user-views.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import type { WatchClickHouseDeps } from './watch-clickhouse.ts'

const INTERVAL_MS = 5000

/** A view is reported for so long after its last failure, in milliseconds. */
const REPORTED_MS = 600_000

/** Characters of an error that are shown: it may quote values. */
const SHOWN_CHARACTERS = 300

export interface ViewWatch {
  /** For failures that only the insert knows. */
  onFailure: (view: string, error: string) => void
  /** One for each view that failed of late. */
  parts: () => HealthPart[]
  stop: () => Promise<void>
}

/**
 * Inserts go on without a view that fails, into `events` (`insert-past-views.ts`) and into the other tables
 * (`PAST_USER_VIEWS`); here it is logged, reported and counted. Of each error ClickHouse keeps the last text.
 */
export function watchViews ({ clickhouse, cluster, metrics, logger }: WatchClickHouseDeps): ViewWatch {
  const failures = new Map<string, { at: number, error: string }>()
  const recent = () => [...failures].filter(([, { at }]) => Date.now() - at < REPORTED_MS)
  metrics.gaugeFrom('clickhouse_failing_views', 'Materialized views of users that failed within ten minutes; they lack rows.',
    () => recent().length)

  function note (view: string, text: string, at: number): void {
    const error = text.slice(0, SHOWN_CHARACTERS)
    const known = failures.get(view)
    if (at <= (known?.at ?? Date.now() - REPORTED_MS)) return
    failures.set(view, { at, error })
    if (at - (known?.at ?? 0) > REPORTED_MS) {
      logger.error({ view, error }, 'a materialized view on a table of Millrace fails: the rows are stored, and the view misses them')
    }
  }

  async function poll (): Promise<void> {
    const errors = (await readLastErrors(clickhouse, cluster)).filter(({ message }) => readFailedView(message) !== null)
    // Others may use the server, too.
    const views = errors.length === 0 ? [] : await listUserViews(clickhouse)
    for (const { message, secondsAgo } of errors) {
      const view = readFailedView(message)?.replaceAll('`', '') ?? ''
      if (views.includes(view)) note(view, message, Date.now() - secondsAgo * 1000)
    }
  }

  const { stop } = runAtIntervals({
    everyMs: INTERVAL_MS,
    // While ClickHouse is unavailable, or does not let us read its errors, inserts into `events` still report theirs.
    run: async () => { await poll().catch(() => {}) }
  })
  return {
    onFailure: (view, error) => note(view, error, Date.now()),
    parts: () => recent().map(([view, { at, error }]) => ({
      name: `materialized view ${view}`, healthy: false, lastAt: new Date(at).toISOString(), lastError: error
    })),
    stop
  }
}
