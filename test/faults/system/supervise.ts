import { readFile } from 'node:fs/promises'
import { keepRunning } from '../../../embedded/supervisor/processes/supervise.ts'
import type { ManagedProcess } from '../../../embedded/supervisor/processes/spawn-process.ts'
import { waitFor } from '../../support/wait-for.ts'

/** A process that is started again when it dies, as in production, and that faults may hit. */
export interface SupervisedPart {
  readonly name: string
  /** True between readiness and end. */
  isRunning (): boolean
  /** kill -9. Resolves when it is gone; the supervisor starts another one. */
  kill (): Promise<void>
  /** SIGSTOP, for its child processes too. */
  pause (): Promise<void>
  /** SIGCONT. */
  resume (): Promise<void>
  /** Asks it to end, as an operator does; resolves, when the next one is ready, with how long the end took, in ms. */
  restart (): Promise<number>
  /**
   * Asks it to end, or kills it, and starts no other before the returned function is called; that one resolves when the
   * next one is ready.
   */
  keepStopped (how?: 'politely' | 'kill'): Promise<() => Promise<void>>
  /** Ends it for good. */
  stop (): Promise<void>
}

/** Starts a process and waits until it is ready. */
export type StartPart = (signal: AbortSignal, onSpawn: (child: ManagedProcess) => void) => Promise<ManagedProcess>

/** Starts a part of a system under supervision. */
export type Supervise = (name: string, start: StartPart) => Promise<SupervisedPart>

export interface SuperviseOptions {
  name: string
  start: StartPart
  /** Called for every exit that no fault here caused, and for every failed start. */
  onSurprise: (what: string) => unknown
  giveUp: AbortSignal
}

/** @throws when the first start fails. */
export async function supervise (options: SuperviseOptions): Promise<SupervisedPart> {
  const { name } = options
  let running: ManagedProcess | undefined
  let starting: ManagedProcess | undefined
  let isExpected = false
  let gate: Promise<void> | undefined
  const stopping = new AbortController()
  const stopped = new Promise<void>((resolve) => { stopping.signal.addEventListener('abort', () => resolve()) })

  const { kept } = await keepRunning({
    async start (signal) {
      if (gate !== undefined) await Promise.race([gate, stopped])
      const process = await options.start(signal, (child) => { starting = child })
      void process.exited.then(() => { if (running === process) running = undefined })
      isExpected = false
      running = process
      return { ...process, name }
    },
    onExit: (_, { code, signal }) => {
      if (!isExpected) options.onSurprise(`${name} ended with ${signal ?? `code ${code}`}`)
    },
    onFailedStart: (_, error) => {
      if (!isExpected) options.onSurprise(`${name} could not start: ${String(error).slice(0, 300)}`)
    },
    onRestart: () => {}
  }, options.giveUp)

  /** The process that can be signalled: the running one, or one that does not get ready. */
  function target (): ManagedProcess {
    const process = running ?? starting
    if (process === undefined) throw new Error(`${name} does not run`)
    return process
  }

  async function endPolitely (): Promise<ManagedProcess> {
    const process = target()
    isExpected = true
    await process.stop()
    return process
  }

  async function kill (): Promise<void> {
    const process = target()
    isExpected = true
    process.kill('SIGKILL')
    await process.exited
  }

  /** Paused children of Postgres would not see that it is gone, and keep its files open. */
  async function killTree (): Promise<void> {
    for (const pid of await readChildren(target().pid)) globalThis.process.kill(pid, 'SIGKILL')
    await kill()
  }

  return {
    name,
    isRunning: () => running !== undefined,
    kill,
    async pause () { await signalTree(target(), 'SIGSTOP') },
    async resume () { await signalTree(target(), 'SIGCONT') },
    async restart () {
      const startedAt = performance.now()
      const before = await endPolitely()
      const tookMs = performance.now() - startedAt
      await waitFor(() => running !== undefined && running !== before)
      return tookMs
    },
    async keepStopped (how = 'politely') {
      const { promise, resolve } = Promise.withResolvers<void>()
      gate = promise
      if (how === 'politely') await endPolitely()
      else await killTree()
      return async () => {
        gate = undefined
        resolve()
        await waitFor(() => running !== undefined)
      }
    },
    async stop () {
      isExpected = true
      stopping.abort()
      // Anyone who is paused would not hear the request to end.
      if (running !== undefined) await signalTree(running, 'SIGCONT')
      await kept.stop()
    }
  }
}

/** Signals a process and its children: pausing only the first process of Postgres would leave its sessions at work. */
async function signalTree (process: ManagedProcess, signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
  process.kill(signal)
  for (const pid of await readChildren(process.pid)) {
    try {
      globalThis.process.kill(pid, signal)
    } catch {
      // Ended in the meantime.
    }
  }
}

/** Linux only; elsewhere the process alone is meant. */
async function readChildren (pid: number): Promise<number[]> {
  const list = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return list.split(' ').filter(Boolean).map(Number)
}
