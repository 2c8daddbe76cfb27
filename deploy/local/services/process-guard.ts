import { spawn } from 'node:child_process'

/** Ends a process when the process that watches over it is gone. */
export interface ProcessGuard {
  /** Lets the process be: it has ended, or somebody else ends it. Resolves when the guard itself is gone. */
  release (): Promise<void>
}

/**
 * Waits for a line or for the end of standard input. A line means "no longer needed". The end of input means that
 * the watching process died without a word, since the kernel closes the pipe of a dead process.
 */
const GUARD = `
is_running () {
  kill -0 "$1" 2>/dev/null || return 1
  # A container without an init collects no zombies; they count as ended.
  case "$(cat "/proc/$1/stat" 2>/dev/null)" in *') Z '*) return 1 ;; esac
}
if read -r line; then exit 0; fi
kill -s "$2" "$1" 2>/dev/null
tries=0
while [ "$tries" -lt "$3" ] && is_running "$1"; do
  sleep 0.1
  tries=$((tries + 1))
done
kill -s KILL -- "-$1" 2>/dev/null
exit 0
`

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
  const args = ['-c', GUARD, 'millrace-guard', String(pid), signal.replace(/^SIG/, ''), String(tenths)]
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
