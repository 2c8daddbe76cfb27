import { spawn } from 'node:child_process'
import path from 'node:path'

/** Ends a process when the process that watches over it is gone. */
export interface ProcessGuard {
  /** Lets the process be: it has ended, or somebody else ends it. Resolves when the guard itself is gone. */
  release (): Promise<void>
}

const GUARD = path.join(import.meta.dirname, 'process-guard.sh')

/**
 * Makes sure that a child does not outlive this process, whatever ends it, kill -9 included.
 *
 * The guard is a shell of about one megabyte in a session of its own, so neither Ctrl-C nor the end of this process
 * reaches it. It works for any binary, unlike a child that watches its own standard input, and unlike the
 * parent-death signal it does not depend on Linux or get lost when the child changes its user.
 *
 * @param options.pid        A process that leads its own group.
 * @param options.signal     What asks it to end.
 * @param options.timeoutMs  After this long the whole group is killed.
 */
export function startProcessGuard (options: { pid: number, signal: NodeJS.Signals, timeoutMs: number }): ProcessGuard {
  const { pid, signal, timeoutMs } = options
  const tenths = Math.ceil(timeoutMs / 100)
  const args = [GUARD, String(pid), signal.replace(/^SIG/, ''), String(tenths)]
  const guard = spawn('/bin/sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'], cwd: '/' })
  const gone = new Promise<void>((resolve) => {
    guard.once('exit', () => resolve())
    guard.once('error', () => resolve())
  })
  // A guard that was killed makes the write below fail; there is nothing left to release then.
  guard.stdin.on('error', () => {})
  // Neither the guard nor its pipe keeps this process alive, until it is told to go.
  guard.unref()
  if ('unref' in guard.stdin && typeof guard.stdin.unref === 'function') guard.stdin.unref()
  return {
    async release () {
      guard.ref()
      guard.stdin.end('released\n')
      await gone
    }
  }
}
