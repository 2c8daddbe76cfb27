import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type Logger } from '../../../platform/logger.ts'
import { type Metrics } from '../../../platform/metrics.ts'
import { countQueryUsage } from './count-query-usage.ts'
import { startRounds } from '../../start-rounds.ts'

/** The embedded ClickHouse server writes its log every 7.5 s, as servers do; a count reads two days of it. */
const INTERVAL_MS = 60_000

/**
 * Counts once a minute how often analysts named events and properties. Every pipeline process runs this; a lock in
 * Postgres lets one at a time do it. It is no stage of the life of an event: while it fails, counts stand still.
 */
export function startQueryUsage ({ metrics, logger, ...stores }: {
  clickhouse: ClickHouse, sql: Sql, cluster: string, metrics: Metrics, logger: Logger
}): { stop: () => Promise<void> } {
  let lastOutcome = ''
  return startRounds({
    intervalMs: INTERVAL_MS,
    rounds: metrics.counter('query_usage_rounds_total', 'Counts of the query log.', { outcome: ['done', 'skipped', 'no log', 'failed'] }),
    async round () {
      const { kind } = await countQueryUsage(stores, { minPauseMs: INTERVAL_MS / 2 })
      if (kind === 'no log' && lastOutcome !== kind) logger.warn('there is no query log to count query usage from')
      lastOutcome = kind
      return kind
    },
    onFailure: (err) => logger.warn({ err }, 'query usage could not be counted')
  })
}
