import { readFileSync, readlinkSync } from 'node:fs'

/** Where a process runs, precisely enough that another one on the same machine can see whether it is gone. */
export interface ProcessPlace {
  /** Boot of the machine and pid namespace: pids may only be compared within these. */
  host: string
  pid: number
  /** Start time in clock ticks since boot: a pid is given again, this not. */
  startedAt: string
}

/** @returns null where the system does not tell (anything but Linux); then only silence shows that a process died. */
export function readOwnPlace (): ProcessPlace | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return {
      host: `${boot} ${readlinkSync('/proc/self/ns/pid')}`, pid: process.pid, startedAt: readStartTime(process.pid)
    }
  } catch {
    return null
  }
}

/** True when the process is certainly gone; false when it lives or when that cannot be told from here. */
export function isProcessGone (place: ProcessPlace | null, own: ProcessPlace | null): boolean {
  if (place === null || own === null || place.host !== own.host) return false
  try {
    return readStartTime(place.pid) !== place.startedAt
  } catch {
    return true
  }
}

/** Field 22 of `/proc/<pid>/stat`; the name in field 2 may hold spaces and parentheses. */
function readStartTime (pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // A process that ended but was not collected by its parent yet is gone for us.
  return fields[0] === 'Z' || fields[0] === 'X' ? 'ended' : fields[19]!
}
