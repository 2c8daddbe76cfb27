import { setTimeout as delay } from 'node:timers/promises'
import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type Logger } from '../../../platform/logger.ts'
import { type Metrics } from '../../../platform/metrics.ts'
import { pause, retryDelayMs } from '../../../platform/retry-delay.ts'
import { rollUpDefinitions } from './roll-up-definitions.ts'

const STOP_MS = 1000

export interface RollUpDeps {
  clickhouse: ClickHouse
  sql: Sql
  /** Pause between two rounds, in milliseconds. */
  intervalMs: number
  metrics: Metrics
  logger: Logger
}

/** The running roll-up of one process. */
export interface RollUp {
  /** Why the last round failed, or null. */
  lastError: () => string | null
  /** Resolves when the round under way ended, or after a second: it is a transaction, and repeats harmlessly. */
  stop: () => Promise<void>
}

/**
 * Rolls definitions up until stopped. Every pipeline process runs this; a lock in Postgres lets one at a time do it.
 * While a store is unavailable the rounds fail and the pauses grow; afterwards it catches up by itself.
 */
export function startRollUp (deps: RollUpDeps): RollUp {
  const stopped = new AbortController()
  let lastError: string | null = null
  const rounds = deps.metrics.counter('roll_up_rounds_total', 'Rounds of the definitions roll-up.', { outcome: ['done', 'skipped', 'failed'] })
  const written = deps.metrics.counter('roll_up_definitions_total', 'Definitions read by the roll-up.')

  let rolledUpAt = Date.now()
  deps.metrics.gaugeFrom('definitions_age_seconds', 'Since the last round of the roll-up that did not fail: how stale definitions may be.',
    () => (Date.now() - rolledUpAt) / 1000)

  async function run (): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted;) {
      try {
        const outcome = await rollUpDefinitions(deps, { minPauseMs: deps.intervalMs / 2 })
        rounds.inc({ outcome: outcome.kind })
        if (outcome.kind === 'done') written.inc(outcome.definitions)
        failures = 0
        rolledUpAt = Date.now()
        lastError = null
      } catch (err) {
        failures++
        rounds.inc({ outcome: 'failed' })
        lastError = err instanceof Error ? err.message : String(err)
        if (!stopped.signal.aborted) deps.logger.warn({ err, failures }, 'definitions could not be rolled up')
      }
      await pause(failures === 0 ? deps.intervalMs : Math.max(deps.intervalMs, retryDelayMs(failures)), stopped.signal)
    }
  }

  const ended = run()
  return {
    lastError: () => lastError,
    async stop () {
      stopped.abort()
      await Promise.race([ended, delay(STOP_MS, undefined, { ref: false })])
    }
  }
}
