import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { Logger } from '../../platform/logger.ts'
import { drainPersonsOutbox } from './persons-outbox.ts'
import { type IntervalLoop, pause, runAtIntervals } from '../../platform/intervals.ts'
import type { PersonsMetrics } from './persons-metrics.ts'

/** Shortest interval of reading the outbox, after transactions of this process, in ms: limits the rate of inserts. */
const BUSY_MS = 500

/** The same while this process is idle and nothing waits: another one may have died before it copied. */
const IDLE_MS = 15_000

/**
 * Maximum compressed bytes in the outbox: an outage of ClickHouse must not fill the disk of Postgres. While it is
 * exceeded, partitions pause and updates wait in the stream.
 */
const MAX_WAITING_BYTES = 2_147_483_648

/** Copies the outbox to ClickHouse until stopped. */
export class CopyRunner {
  lastError: string | null = null
  waitingBytes = 0
  readonly #deps: { sql: Sql, clickhouse: ClickHouse, metrics: PersonsMetrics, logger: Logger }
  readonly #loop: IntervalLoop

  constructor (deps: { sql: Sql, clickhouse: ClickHouse, metrics: PersonsMetrics, logger: Logger }) {
    this.#deps = deps
    this.#loop = runAtIntervals({
      everyMs: () => this.lastError === null && this.waitingBytes === 0 ? IDLE_MS : BUSY_MS,
      run: async (signal) => await this.#copy(signal),
      logger: deps.logger,
      failure: 'could not copy persons to ClickHouse; retrying',
      stopWithinMs: Infinity
    })
  }

  /** Call after each transaction that wrote to the outbox. */
  notify (): void {
    this.#loop.soon(BUSY_MS)
  }

  /** Resolves once the outbox has room, or the signal fires. */
  async waitForRoom (signal: AbortSignal): Promise<void> {
    while (this.waitingBytes > MAX_WAITING_BYTES && !signal.aborted) await pause(BUSY_MS, signal)
  }

  /** Resolves when the current insert has ended; the rest stays in the outbox. */
  async stop (): Promise<void> {
    await this.#loop.stop()
  }

  async #copy (signal: AbortSignal): Promise<void> {
    const { metrics, logger } = this.#deps
    try {
      const { stored, refused } = await drainPersonsOutbox({ ...this.#deps, signal })
      metrics.copiesStored.inc(stored)
      metrics.copiesRefused.inc(refused)
      if (refused > 0) logger.error({ refused }, 'ClickHouse refused rows of persons_outbox; they are not retried, and the column "refused" has the reason')
      if (stored + refused + this.waitingBytes > 0) await this.#measure()
      this.lastError = null
    } catch (error) {
      this.lastError = error instanceof Error ? error.message : String(error)
      await this.#measure().catch(() => { /* the failed copy is logged already */ })
      throw error
    }
  }

  async #measure (): Promise<void> {
    const { sql, metrics } = this.#deps
    const [waiting] = await sql<{ bytes: number, seconds: number }[]>`
      SELECT coalesce(sum(octet_length(rows)), 0)::bigint AS bytes,
        coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS seconds
      FROM persons_outbox WHERE refused IS NULL`
    this.waitingBytes = waiting?.bytes ?? 0
    metrics.copiesWaitingBytes.set(this.waitingBytes)
    metrics.copiesWaitingSeconds.set(waiting?.seconds ?? 0)
  }
}
