/** Work that others ask for with a row in Postgres. A trigger announces the row, so that nobody has to poll for it. */
import { type IntervalLoop, type IntervalOptions, runAtIntervals } from '../platform/intervals.ts'
import { type ListenOptions, listenPostgres } from '../platform/postgres/listen-postgres.ts'

/** Channel of `schema/postgres/0025_announce_work.sql`. */
const CHANNEL = 'millrace_work'

/** Interval of rounds without an announcement while there is nothing to do, in milliseconds: one may be missed. */
const IDLE_MS = 15_000

/** Shortest interval of announced rounds, in milliseconds: some work announces more of itself. */
const ANNOUNCED_MS = 1000

export interface AnnouncedWork extends IntervalOptions {
  /** Interval of the rounds while there is something to do, in milliseconds. */
  everyMs: number
  /** @returns whether another round is due after `everyMs`. */
  run: (signal: AbortSignal) => Promise<boolean>
}

/** Runs rounds until stopped. `runAtIntervals` is one that hears no announcements and never rests longer. */
export type RunAnnounced = (work: AnnouncedWork) => IntervalLoop

/** Runs a round of all work with each announcement, and after each reconnection to Postgres. */
export function listenForWork (
  options: Omit<ListenOptions, 'channel' | 'onChange'>
): { run: RunAnnounced, stop: IntervalLoop['stop'] } {
  const loops = new Map<IntervalLoop, AnnouncedWork>()
  const onChange = (): void => loops.forEach(({ everyMs }, loop) => loop.soon(Math.min(everyMs, ANNOUNCED_MS)))
  const { stop } = listenPostgres({ ...options, channel: CHANNEL, onChange })
  return {
    stop,
    run (work) {
      let isBusy = true
      const loop = runAtIntervals({
        ...work,
        everyMs: () => isBusy ? work.everyMs : IDLE_MS,
        async run (signal) {
          isBusy = true
          isBusy = await work.run(signal)
        }
      })
      loops.set(loop, work)
      return loop
    }
  }
}
