/** The processes of a stack on record, so that the next start can end what a killed one left running. */
import { execFile } from 'node:child_process'
import { readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type ManagedProcess, sendSignal } from './spawn-process.ts'

interface RecordedProcess {
  name: string
  pid: number
  identity: string
  stopSignal: NodeJS.Signals
}

/** As long as Ctrl-C may take. */
const END_TIMEOUT_MS = 10_000

const run = promisify(execFile)

/** The file that lists the processes of the stack, in case the stack itself cannot end them. */
export function openProcessRecord (dataDir: string) {
  const file = fileIn(dataDir)
  const running = new Map<number, RecordedProcess>()
  let writing = Promise.resolve()

  function save (): void {
    writing = writing.then(async () => {
      await writeFile(`${file}.new`, JSON.stringify([...running.values()]))
      await rename(`${file}.new`, file)
    // A full disk must not end the stack: the guards of the processes end them too.
    }).catch(() => {})
  }

  return {
    add (child: ManagedProcess): void {
      writing = writing.then(async () => {
        const identity = await readProcessIdentity(child.pid)
        if (identity === undefined) return
        running.set(child.pid, { name: child.name, pid: child.pid, identity, stopSignal: child.stopSignal })
      })
      save()
      void child.exited.then(() => {
        running.delete(child.pid)
        save()
      })
    },
    /** Resolves when the file lists everything that was added. */
    async written (): Promise<void> { await writing }
  }
}

/**
 * Ends the processes that a killed stack left behind: signals all at once, waits, kills. The caller holds the lock of
 * the data directory, so none of them belongs to a running stack.
 *
 * @returns the names of the processes that were still there.
 */
export async function endRecordedProcesses (dataDir: string): Promise<string[]> {
  const leftover = await filterRunning(await readRecord(dataDir))
  for (const { pid, stopSignal } of leftover) sendSignal(pid, stopSignal)
  const deadline = performance.now() + END_TIMEOUT_MS
  let running = leftover
  while (running.length > 0 && performance.now() < deadline) {
    await delay(50)
    running = await filterRunning(running)
  }
  // Each leads a group of its own.
  for (const { pid } of running) sendSignal(-pid, 'SIGKILL')
  while ((await filterRunning(running)).length > 0 && performance.now() < deadline + END_TIMEOUT_MS) await delay(50)
  return leftover.map(({ name }) => name)
}

/** The names of the processes of a stack that run now, by its record. */
export async function listRecordedProcesses (dataDir: string): Promise<string[]> {
  return (await filterRunning(await readRecord(dataDir))).map(({ name }) => name)
}

/**
 * Identifies a process even when its pid is reused: after a crash or a reboot, the pid in a file may belong to another
 * process.
 *
 * @returns boot id and start time on Linux, start time elsewhere; undefined when no such process runs (a zombie has
 *   ended, it only waits to be collected).
 */
export async function readProcessIdentity (pid: number): Promise<string | undefined> {
  return process.platform === 'linux' ? await readLinuxIdentity(pid) : await readPosixIdentity(pid)
}

function fileIn (dataDir: string): string {
  return path.join(dataDir, 'processes.json')
}

async function readRecord (dataDir: string): Promise<RecordedProcess[]> {
  try {
    return JSON.parse(await readFile(fileIn(dataDir), 'utf8')) as RecordedProcess[]
  } catch {
    // First start, or cut off by a full disk; then the guards alone have ended the processes.
    return []
  }
}

async function filterRunning (processes: readonly RecordedProcess[]): Promise<RecordedProcess[]> {
  const identities = await Promise.all(processes.map(({ pid }) => readProcessIdentity(pid)))
  return processes.filter(({ identity }, index) => identities[index] === identity)
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
