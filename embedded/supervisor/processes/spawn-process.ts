/** Child processes that never outlive this one, whatever ends it. */
import { spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdirSync, openSync } from 'node:fs'
import path from 'node:path'

export interface ProcessExit {
  code: number | null
  signal: NodeJS.Signals | null
  /** True when `stop` was called before; false when it crashed or ended by itself. */
  requested: boolean
}

export interface ManagedProcess {
  readonly name: string
  readonly pid: number
  readonly logFile: string
  /** Where its own lines begin in the log file, in bytes: before it are those of earlier processes. */
  readonly logStart: number
  /** The signal that asks it to end. */
  readonly stopSignal: NodeJS.Signals
  /** Resolves when the process is gone. Never rejects. */
  readonly exited: Promise<ProcessExit>
  /** Asks it to end, kills it when it takes too long, resolves when it is gone. May be called again. */
  stop (): Promise<void>
  /** Sends a signal to it alone, as faults do; `stop` is the polite way. */
  kill (signal: NodeJS.Signals): void
}

export interface SpawnProcessOptions {
  /** For messages, and for the name of the log file. */
  name: string
  command: string
  args: readonly string[]
  env: NodeJS.ProcessEnv
  cwd?: string
  /** Runs it as this user and group; only root can. */
  uid?: number
  /** Directories handed over as open descriptors, numbered from 3. */
  descriptors?: readonly number[]
  /** Given on standard input, which then ends. For secrets: no other process can read it, unlike an environment. */
  input?: string | undefined
  /** Standard output and error are appended to it; its folder is created. */
  logFile: string
  /** The signal that asks it to end. Default SIGTERM. */
  stopSignal?: NodeJS.Signals
  /** Killed when it has not ended after this time, in milliseconds. Default 8,000; Ctrl-C promises 10,000. */
  stopTimeoutMs?: number | undefined
  onSpawn?: ((child: ManagedProcess) => void) | undefined
}

const GUARD = path.join(import.meta.dirname, 'process-guard.sh')

/**
 * Starts a process in a session of its own: Ctrl-C in a terminal reaches every process of the foreground group at
 * once, but the stack must end in order, sources first.
 *
 * @throws when the command cannot be executed.
 */
export async function spawnProcess (options: SpawnProcessOptions): Promise<ManagedProcess> {
  const { name, logFile, stopSignal = 'SIGTERM', stopTimeoutMs = 8000 } = options
  mkdirSync(path.dirname(logFile), { recursive: true })
  const log = openSync(logFile, 'a', 0o600)
  const logStart = fstatSync(log).size
  const child = spawn(options.command, options.args, {
    env: options.env,
    detached: true,
    stdio: [options.input === undefined ? 'ignore' : 'pipe', log, log, ...(options.descriptors ?? [])],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid })
  })
  closeSync(log)
  const pid = child.pid
  if (pid === undefined) {
    const cause = await new Promise((resolve) => { child.once('error', resolve) })
    throw new Error(`${name}: cannot run ${options.command}`, { cause })
  }

  // A process that ends before it has read its input fails by itself.
  child.stdin?.on('error', () => {})
  child.stdin?.end(options.input)
  const release = guardProcess({ pid, signal: stopSignal, timeoutMs: stopTimeoutMs })
  let requested = false
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once('exit', (code, signal) => {
      void release().then(() => resolve({ code, signal, requested }))
    })
  })
  const managed: ManagedProcess = {
    name,
    pid,
    logFile,
    logStart,
    stopSignal,
    exited,
    async stop () {
      requested = true
      child.kill(stopSignal)
      const timer = setTimeout(() => sendSignal(-pid, 'SIGKILL'), stopTimeoutMs)
      await exited
      clearTimeout(timer)
    },
    kill (signal) {
      child.kill(signal)
    }
  }
  options.onSpawn?.(managed)
  return managed
}

/**
 * Makes sure that a child does not outlive this process, whatever ends it, kill -9 included.
 *
 * The guard is a shell of about one megabyte in a session of its own, so neither Ctrl-C nor the end of this process
 * reaches it. It works for any binary, unlike a child that watches its own standard input, and unlike the
 * parent-death signal it does not depend on Linux or get lost when the child changes its user.
 *
 * @param options.pid        A process that leads its own group.
 * @param options.signal     Asks it to end.
 * @param options.timeoutMs  The whole group is killed after this time.
 * @returns what stops guarding, because the process has ended, and resolves when the guard itself is gone.
 */
function guardProcess (
  { pid, signal, timeoutMs }: { pid: number, signal: NodeJS.Signals, timeoutMs: number }
): () => Promise<void> {
  const tenths = Math.ceil(timeoutMs / 100)
  const args = [GUARD, String(pid), signal.replace(/^SIG/, ''), String(tenths)]
  const guard = spawn('/bin/sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'], cwd: '/' })
  const gone = new Promise<void>((resolve) => {
    guard.once('exit', () => resolve())
    guard.once('error', () => resolve())
  })
  // A guard that was killed makes the write below fail; there is nothing left to release then.
  guard.stdin.on('error', () => {})
  // Neither the guard nor its pipe keeps this process alive.
  guard.unref()
  if ('unref' in guard.stdin && typeof guard.stdin.unref === 'function') guard.stdin.unref()
  return async () => {
    guard.ref()
    guard.stdin.end('released\n')
    await gone
  }
}

/** To a process, or with a negative number to a group; nothing happens when it has ended. */
export function sendSignal (pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Ended in the meantime.
  }
}
