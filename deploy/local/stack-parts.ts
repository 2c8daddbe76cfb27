import { keepRunning, type KeptProcess } from './processes/keep-running.ts'
import { type Progress } from './progress.ts'
import { type ManagedProcess } from './processes/spawn-process.ts'

/**
 * The order in which parts are stopped, in the direction of the data: first what takes events in, then what moves
 * them on, then what stores them. Parts of one group stop together.
 */
export const STOP_ORDER = ['sources', 'pipeline', 'services'] as const
export type StopGroup = (typeof STOP_ORDER)[number]

/** How long each group may take before it is killed, in milliseconds; together less than the ten seconds promised. */
export const STOP_TIMEOUT_MS: Record<StopGroup, number> = { sources: 4000, pipeline: 3000, services: 2500 }

/** What the start of a part is given. */
export interface PartHooks {
  signal: AbortSignal
  onSpawn: (child: ManagedProcess) => void
  stopTimeoutMs: number
}

/** The processes of a stack: each kept running until all are stopped. */
export interface StackParts {
  /** Starts a part and keeps it running. Resolves with its first process once that is ready. */
  start <P extends ManagedProcess>(
    group: StopGroup, name: string, start: (hooks: PartHooks) => Promise<P>
  ): Promise<P>
  /** Stops everything in order. */
  stop (): Promise<void>
  /** Kills everything at once. */
  kill (): void
}

export function createStackParts (
  { progress, signal, onSpawn }: { progress: Progress, signal: AbortSignal, onSpawn: (child: ManagedProcess) => void }
): StackParts {
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
    async start (group, name, start) {
      const run = keepRunning({
        start: async (signal) => await start({ signal, onSpawn: watch, stopTimeoutMs: STOP_TIMEOUT_MS[group] }),
        onExit: (part, { code, signal }, restartInMs) => progress.note(
          `  ${part} ended with ${signal ?? `code ${code}`}; starting it again in ${restartInMs / 1000} s`),
        onFailedStart: (part, error, retryInMs) => progress.note(
          `  ${part} could not be started, next try in ${retryInMs / 1000} s: ${describe(error)}`),
        onRestart: (part) => progress.note(`  ${part} runs again`)
      }, giveUp)
      starting.add(run)
      const { first, kept } = await progress.step(name, () => run).finally(() => starting.delete(run))
      groups[group].push(kept)
      return first
    },
    async stop () {
      // A start that is given up ends its own process.
      stopping.abort()
      await Promise.allSettled(starting)
      for (const group of STOP_ORDER) await Promise.all(groups[group].map(async (part) => { await part.stop() }))
    },
    kill () {
      for (const { pid } of alive) killGroup(pid)
    }
  }
}

function describe (error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function killGroup (pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Ended in the meantime.
  }
}
