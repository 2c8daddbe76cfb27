/** Leases of tasks, and the record of how far each has come: rows of `window_tasks`. */
import { runAtIntervals } from '../../platform/intervals.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { WindowEffects } from './window-task.ts'

/** Pauses after failures, in seconds: they double from the first to the longest. */
const [FIRST_RETRY_S, LONGEST_RETRY_S] = [5, 600]

/** Longest text of an error that is stored. */
const MAX_ERROR_LENGTH = 1000

/** Another process has taken the task over: what this one did counts for nothing. */
const leaseLost = (subject: string): Error =>
  new Error(`the lease of ${subject} has ended, as this process did not renew it in time`)

export interface LeaseOptions {
  sql: Sql
  /** Names this process; new with each start. */
  owner: string
  /** A process that is silent for so long loses the lease, in milliseconds. It renews three times meanwhile. */
  leaseMs: number
  /** Fires when the process stops: what runs should end early. */
  signal: AbortSignal
}

export interface Leases {
  /** End of the last window of the task that was done. A new task gets a row, as if all before `from` were done. */
  readProgress: (subject: string, from: Date) => Promise<Date>
  /**
   * Runs work of the task unless another process does, the pause after a failure lasts, or all up to `doneThrough` is
   * done. The effects that it returns are committed together with `doneThrough`, if the lease was held all the time.
   *
   * @returns whether it ran and was committed.
   * @throws what the work throws, after it was recorded.
   */
  hold: (
    subject: string, work: (signal: AbortSignal) => Promise<WindowEffects | undefined>, doneThrough?: Date | null
  ) => Promise<boolean>
}

export function createLeases ({ sql, owner, leaseMs, signal: stop }: LeaseOptions): Leases {
  const leaseEnd = sql`now() + ${leaseMs}::integer * interval '1 millisecond'`

  async function take (subject: string, doneThrough: Date | null): Promise<boolean> {
    return (await sql`
      UPDATE window_tasks SET owner = ${owner}, leased_until = ${leaseEnd}
      WHERE subject = ${subject} AND leased_until < now() AND retry_at <= now()
        AND (${doneThrough}::timestamptz IS NULL OR done_through < ${doneThrough})`).count === 1
  }

  async function commit (subject: string, doneThrough: Date | null, effects?: WindowEffects): Promise<void> {
    await sql.begin(async (transaction) => {
      const { count } = await transaction`
        UPDATE window_tasks SET done_through = coalesce(${doneThrough}::timestamptz, done_through),
          leased_until = '-infinity', failures = 0, error = '', updated_at = now()
        WHERE subject = ${subject} AND owner = ${owner} AND leased_until > now()`
      if (count !== 1) throw leaseLost(subject)
      await effects?.(transaction)
    })
  }

  async function recordFailure (subject: string, error: unknown): Promise<void> {
    if (stop.aborted) {
      await sql`UPDATE window_tasks SET leased_until = '-infinity' WHERE subject = ${subject} AND owner = ${owner}`
      return
    }
    const text = (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR_LENGTH)
    await sql`
      UPDATE window_tasks SET leased_until = '-infinity', failures = failures + 1, error = ${text}, updated_at = now(),
        retry_at = now() + least(${LONGEST_RETRY_S}::float8, ${FIRST_RETRY_S}::float8 * 2 ^ least(failures, 10)) * interval '1 second'
      WHERE subject = ${subject} AND owner = ${owner}`
  }

  return {
    async readProgress (subject, from) {
      await sql`INSERT INTO window_tasks (subject, done_through) VALUES (${subject}, ${from}) ON CONFLICT DO NOTHING`
      const [row] = await sql<{ done: Date }[]>`SELECT done_through AS done FROM window_tasks WHERE subject = ${subject}`
      return row === undefined || row.done < from ? from : row.done
    },
    async hold (subject, work, doneThrough = null) {
      const takenAt = performance.now()
      if (stop.aborted || !await take(subject, doneThrough)) return false
      const lost = new AbortController()
      const lose = (): void => lost.abort(leaseLost(subject))
      // Also while Postgres does not answer.
      const loseAfter = (from: number): NodeJS.Timeout => setTimeout(lose, from + leaseMs - performance.now()).unref()
      let end = loseAfter(takenAt)
      const signal = AbortSignal.any([stop, lost.signal])
      const renewal = runAtIntervals({
        everyMs: leaseMs / 3,
        firstAfterMs: leaseMs / 3,
        async run () {
          const renewedAt = performance.now()
          const { count } = await sql`
            UPDATE window_tasks SET leased_until = ${leaseEnd}
            WHERE subject = ${subject} AND owner = ${owner} AND leased_until > now()`
          if (count !== 1) lose()
          clearTimeout(end)
          end = loseAfter(renewedAt)
        }
      })
      try {
        const effects = await work(signal)
        signal.throwIfAborted()
        await commit(subject, doneThrough, effects)
        return true
      } catch (error) {
        // Safe to ignore: the lease ends by itself, and the task is tried again then.
        await recordFailure(subject, error).catch(() => {})
        throw error
      } finally {
        await renewal.stop()
        clearTimeout(end)
      }
    }
  }
}
