/** Supervises the processes of a stack: starts each again when it ends, and stops all in order. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Progress } from '../progress.ts'
import { type ManagedProcess, type ProcessExit, sendSignal } from './spawn-process.ts'

/**
 * The order in which parts are stopped, in the direction of the data: first what takes events in, then what moves
 * them on, then what stores them. Parts of one group stop together.
 */
export const STOP_ORDER = ['sources', 'pipeline', 'services'] as const
export type StopGroup = (typeof STOP_ORDER)[number]

/** How long each group may take to stop before it is killed, in milliseconds; together less than ten seconds. */
export const STOP_TIMEOUT_MS: Record<StopGroup, number> = { sources: 4000, pipeline: 3000, services: 2500 }

export interface PartHooks {
  signal: AbortSignal
  onSpawn: (child: ManagedProcess) => void
  stopTimeoutMs: number
}

export type StackParts = ReturnType<typeof createStackParts>

interface KeptProcess {
  /** Stops it for good; resolves when it is gone. */
  stop (): Promise<void>
}

interface KeepRunningOptions<P extends ManagedProcess> {
  start: (signal: AbortSignal) => Promise<P>
  /** Called for each exit that nobody requested, with the time until the restart. */
  onExit: (name: string, exit: ProcessExit, restartInMs: number) => void
  onFailedStart: (name: string, error: unknown, retryInMs: number) => void
  onRestart: (name: string) => void
}

/** After a single crash a part is back within a tenth of a second; one that cannot run is tried every ten seconds. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 10_000
/** A part that ran this long is healthy: the pause starts over. */
const HEALTHY_AFTER_MS = 30_000

/** The processes of a stack: each kept running until all are stopped. */
export function createStackParts (
  { progress, signal, onSpawn }: { progress: Progress, signal: AbortSignal, onSpawn: (child: ManagedProcess) => void }
) {
  const groups: Record<StopGroup, KeptProcess[]> = { sources: [], pipeline: [], services: [] }
  const alive = new Set<ManagedProcess>()
  const starting = new Set<Promise<unknown>>()
  const stopping = new AbortController()
  const giveUp = AbortSignal.any([signal, stopping.signal])

  function watch (child: ManagedProcess): void {
    alive.add(child)
    void child.exited.then(() => alive.delete(child))
    onSpawn(child)
  }

  return {
    /** Starts a part and keeps it running. Resolves with its first process once that is ready. */
    async start<P extends ManagedProcess> (
      group: StopGroup, name: string, start: (hooks: PartHooks) => Promise<P>
    ): Promise<P> {
      const run = keepRunning({
        start: async (signal) => await start({ signal, onSpawn: watch, stopTimeoutMs: STOP_TIMEOUT_MS[group] }),
        onExit: (part, { code, signal }, restartInMs) => progress.print(
          `  ${part} exited with ${signal ?? `code ${code}`}; restarting it in ${restartInMs / 1000} s`),
        onFailedStart: (part, error, retryInMs) => progress.print(
          `  ${part} could not be restarted; next attempt in ${retryInMs / 1000} s: ${error instanceof Error ? error.message : String(error)}`),
        onRestart: (part) => progress.print(`  ${part} is running again`)
      }, giveUp)
      starting.add(run)
      const { first, kept } = await progress.step(name, () => run).finally(() => starting.delete(run))
      groups[group].push(kept)
      return first
    },
    async stop (): Promise<void> {
      // A start that is cancelled stops its own process.
      stopping.abort()
      await Promise.allSettled(starting)
      for (const group of STOP_ORDER) await Promise.all(groups[group].map(async (part) => { await part.stop() }))
    },
    kill (): void {
      for (const { pid } of alive) sendSignal(-pid, 'SIGKILL')
    }
  }
}

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
      async stop () {
        stopping.abort()
        await current?.stop()
        await loop
      }
    }
  }
}
