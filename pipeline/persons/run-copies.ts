import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { Logger } from '../../platform/logger.ts'
import { drainPersonsOutbox } from '../../platform/persons/persons-outbox.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import type { PersonsMetrics } from './persons-metrics.ts'

/** Interval of reading the outbox after a transaction of this process, in milliseconds: limits the rate of inserts. */
const BUSY_MS = 500

/** The same while this process is idle: another one may have died before it copied. */
const IDLE_MS = 5000

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
  readonly #aborted = new AbortController()
  readonly #running: Promise<void>
  #posted = true
  #wake: AbortController | null = null

  constructor (deps: { sql: Sql, clickhouse: ClickHouse, metrics: PersonsMetrics, logger: Logger }) {
    this.#deps = deps
    this.#running = this.#run()
  }

  /** Call after each transaction that wrote to the outbox. */
  notify (): void {
    this.#posted = true
    this.#wake?.abort()
  }

  /** Resolves once the outbox has room, or the signal fires. */
  async waitForRoom (signal: AbortSignal): Promise<void> {
    while (this.waitingBytes > MAX_WAITING_BYTES && !signal.aborted) await pause(BUSY_MS, signal)
  }

  /** Resolves when the current insert has ended; the rest stays in the outbox. */
  async stop (): Promise<void> {
    this.#aborted.abort()
    this.#wake?.abort()
    await this.#running
  }

  async #run (): Promise<void> {
    const { signal } = this.#aborted
    let attempt = 0
    while (!signal.aborted) {
      try {
        await this.#copy()
        attempt = 0
        this.lastError = null
        await pause(BUSY_MS, signal)
        if (!this.#posted && !signal.aborted) await this.#waitForPost()
      } catch (err) {
        this.lastError = err instanceof Error ? err.message : String(err)
        const retryAfterMs = retryDelayMs(attempt++)
        this.#deps.logger.warn({ err, retryAfterMs }, 'could not copy persons to ClickHouse; retrying')
        await this.#measure().catch(() => { /* the failed copy is logged already */ })
        await pause(retryAfterMs, signal)
      }
    }
  }

  async #copy (): Promise<void> {
    const { metrics } = this.#deps
    this.#posted = false
    const { stored, refused } = await drainPersonsOutbox({ ...this.#deps, signal: this.#aborted.signal })
    metrics.copiesStored.inc(stored)
    metrics.copiesRefused.inc(refused)
    if (refused > 0) this.#deps.logger.error({ refused }, 'ClickHouse refused rows of persons_outbox; they are not retried, and the column "refused" has the reason')
    if (stored > 0 || this.waitingBytes > 0) await this.#measure()
  }

  async #waitForPost (): Promise<void> {
    this.#wake = new AbortController()
    await pause(IDLE_MS, this.#wake.signal)
    this.#wake = null
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
