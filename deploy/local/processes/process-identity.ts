import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/**
 * Names a process in a way that survives the reuse of its number: a pid alone may belong to somebody else by the
 * time a file with it is read again, after a crash or a reboot.
 *
 * @returns boot id and start time on Linux, start time elsewhere; undefined when no such process runs (a zombie has
 *   ended, it only waits to be collected).
 */
export async function readProcessIdentity (pid: number): Promise<string | undefined> {
  return process.platform === 'linux' ? await readLinuxIdentity(pid) : await readPosixIdentity(pid)
}

async function readLinuxIdentity (pid: number): Promise<string | undefined> {
  const [stat, bootId] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''),
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')
  ])
  // The name in parentheses may itself hold blanks and parentheses: fields are counted from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const state = fields[0]
  const startedAtTicks = fields[19]
  if (startedAtTicks === undefined || state === 'Z' || state === 'X') return undefined
  return `${bootId.trim()}:${startedAtTicks}`
}

async function readPosixIdentity (pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await run('ps', ['-o', 'lstart=', '-p', String(pid)])
    return stdout.trim() || undefined
  } catch {
    // ps exits non-zero when there is no such process.
    return undefined
  }
}
