import { setTimeout as delay } from 'node:timers/promises'
import { type ManagedProcess, type ProcessExit } from './spawn-process.ts'

/** A process that is started again whenever it ends. */
export interface KeptProcess {
  readonly name: string
  /** Ends it for good; resolves when it is gone. */
  stop (): Promise<void>
}

export interface KeepRunningOptions<P extends ManagedProcess> {
  /** Starts it and waits until it is ready. */
  start: (signal: AbortSignal) => Promise<P>
  /** Told of each end that nobody asked for, and when it is started again. */
  onExit: (name: string, exit: ProcessExit, restartInMs: number) => void
  /** Told of each start that failed. */
  onFailedStart: (name: string, error: unknown, retryInMs: number) => void
  onRestart: (name: string) => void
}

/** A single crash costs a tenth of a second; a part that cannot run is tried every ten seconds. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 10_000
/** A part that ran this long is no part that cannot run: the pause starts over. */
const HEALTHY_AFTER_MS = 30_000

/**
 * Starts a process and keeps it running.
 *
 * @returns once the first start succeeded, with the first process.
 * @throws what the first start throws; only later ones are tried again.
 */
export async function keepRunning<P extends ManagedProcess> (
  options: KeepRunningOptions<P>, giveUp: AbortSignal
): Promise<{ first: P, kept: KeptProcess }> {
  const stopping = new AbortController()
  const first = await options.start(AbortSignal.any([giveUp, stopping.signal]))
  let current: P | undefined = first
  const { name } = first
  const loop = run()

  async function run (): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS
    while (current !== undefined) {
      const startedAt = performance.now()
      const exit = await current.exited
      current = undefined
      if (stopping.signal.aborted) return
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) pauseMs = FIRST_PAUSE_MS
      options.onExit(name, exit, pauseMs)
      while (current === undefined) {
        await delay(pauseMs, undefined, { signal: stopping.signal }).catch(() => {})
        if (stopping.signal.aborted) return
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
        current = await options.start(stopping.signal).catch((error: unknown) => {
          if (!stopping.signal.aborted) options.onFailedStart(name, error, pauseMs)
          return undefined
        })
        if (current !== undefined) options.onRestart(name)
      }
    }
  }

  return {
    first,
    kept: {
      name,
      async stop () {
        stopping.abort()
        await current?.stop()
        await loop
      }
    }
  }
}
