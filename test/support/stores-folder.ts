import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

/** Of Linux: files in it are in memory. */
const IN_MEMORY = '/dev/shm'
/** More than twice what a run of all tests keeps in its stores at a time. */
const ROOM_BYTES = 4 * 1024 ** 3

/**
 * The folder in which stores that only tests know have their data directories: in memory, where there is room, and
 * otherwise where temporary files are. In memory a database is created in half of the time, for three quarters of the
 * CPU. The files outlive a kill in both. Whole stacks keep theirs on the disk, as in production.
 *
 * TMPDIR takes precedence: `repeat.ts` finds everything that a run leaves behind in the folder that it names.
 */
export function storesFolder (): string {
  return process.env.TMPDIR === undefined && hasRoom() ? IN_MEMORY : tmpdir()
}

function hasRoom (): boolean {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    return Math.min(bavail * bsize, process.availableMemory()) > ROOM_BYTES
  } catch {
    // Another system than Linux.
    return false
  }
}
