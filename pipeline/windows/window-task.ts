/** Windows of time, and the work that runs when one is closed. */
import { type AlertInterval, WINDOW_MS } from '../../engines/questions/alert-windows.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'

/** Events with `from <= received_at < to`. */
export interface TimeWindow { from: Date, to: Date }

/** Effects of a window in Postgres. They are committed together with the record that the window is done, or never. */
export type WindowEffects = (transaction: TransactionSql) => Promise<unknown>

/** Work that is done once for each closed window, in order. */
export interface WindowTask {
  /** Kind and id of what it belongs to, such as `export:3`; never used again for another one. */
  subject: string
  /** Length of the windows: whole hours or days of UTC, or weeks from Monday. */
  size: AlertInterval
  /** Its first window is the one that has this moment; earlier ones are skipped, also those that were waiting. */
  since: Date
  /**
   * Runs the window. Every acknowledged event of it is stored. After a crash or an error it runs again, so what it does
   * outside Postgres must bear repetition; what it does in Postgres it returns. It ends when the signal fires.
   *
   * Absent: windows wait, and only `beside` runs.
   *
   * @throws any error: it is recorded with the task, and the window is tried again, later and later.
   */
  run?: ((window: TimeWindow, signal: AbortSignal) => Promise<WindowEffects | undefined>) | undefined
  /** Further work under the same lease, before the next window. Absent: there is nothing to do. */
  beside?: ((signal: AbortSignal) => Promise<WindowEffects | undefined>) | undefined
}

/** Reads the tasks of one kind, at least that of a subject; without one all, every few seconds. */
export type ListWindowTasks = (subject?: string) => Promise<WindowTask[]>

export interface WindowKind {
  list: ListWindowTasks
  /** Tasks that run at once in a process. Infinity for those that wait for servers of others, as each may hang. */
  limit: number
}

/** The first Monday of the epoch was the fifth day. */
const FIRST_MONDAY_MS = 4 * 86_400_000

/** The window that has the moment. */
export function windowAt (size: AlertInterval, moment: Date): TimeWindow {
  const [length, origin] = [WINDOW_MS[size], size === 'week' ? FIRST_MONDAY_MS : 0]
  const from = Math.floor((moment.getTime() - origin) / length) * length + origin
  return { from: new Date(from), to: new Date(from + length) }
}
