import { fchmodSync, fstatSync } from 'node:fs'

export type Progress = ReturnType<typeof createProgress>

/**
 * One line per finished step, with its duration. On a terminal, a last line names the running step.
 *
 * @param out  Usually standard output.
 * @param now  Monotonic milliseconds.
 */
export function createProgress (
  out: { write (text: string): unknown, isTTY?: boolean }, now: () => number
) {
  const isTerminal = out.isTTY === true
  const running = new Set<string>()

  function print (line: string): void {
    out.write(isTerminal ? `\r\u001b[K${line}\n` : `${line}\n`)
    showRunning()
  }

  function showRunning (): void {
    if (isTerminal) out.write(`\r\u001b[K${running.size === 0 ? '' : `  ... ${[...running].join(', ')}`}`)
  }

  return {
    /** Runs a step and reports it in one line when it is done. */
    async step<T> (name: string, run: () => Promise<T>): Promise<T> {
      const startedAt = now()
      running.add(name)
      showRunning()
      try {
        const result = await run()
        running.delete(name)
        print(`  ${name.padEnd(34)} ${((now() - startedAt) / 1000).toFixed(1).padStart(5)} s`)
        return result
      } finally {
        running.delete(name)
        showRunning()
      }
    },
    print
  }
}

/**
 * Makes a file that output with keys goes to readable for its owner alone, whatever the umask of the shell that opened
 * it.
 *
 * @param fd  Of the output; a terminal, a pipe and a socket stay as they are.
 * @returns what to say to the user; empty when nobody else can read it.
 */
export function keepOutputToOwner (fd: number): string {
  const found = fstatSync(fd)
  if (!found.isFile() || (found.mode & 0o077) === 0) return ''
  try {
    fchmodSync(fd, 0o600)
    return 'This file has keys and passwords: only its owner can read it now (mode 0600).\n'
  } catch (error) {
    return `This file has keys and passwords, and others can read it (${String(error instanceof Error ? error.message : error)}): change its mode, or remove it.\n`
  }
}
