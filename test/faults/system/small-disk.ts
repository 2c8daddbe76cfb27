import { execFile } from 'node:child_process'
import { open, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A file system of a fixed size that can be filled. */
export interface SmallDisk {
  /** Leaves not one byte, until `free`. */
  fill (): Promise<void>
  free (): Promise<void>
  unmount (): Promise<void>
}

/** Room for the files of three services and an hour of the load. */
const DISK_BYTES = 1_500_000_000

const BLOCK_BYTES = [16_777_216, 65_536, 4096, 512]

/**
 * Mounts a file system in memory on a folder.
 *
 * @throws when that is not allowed here.
 */
export async function mountSmallDisk (folder: string): Promise<SmallDisk> {
  // World-readable: Postgres runs as another user when we are root.
  await run('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=0755`, 'millrace-faults', folder])
  const filler = path.join(folder, 'filler')
  return {
    async fill () {
      await using file = await open(filler, 'w')
      for (const bytes of BLOCK_BYTES) {
        const block = Buffer.alloc(bytes)
        let hasRoom = true
        while (hasRoom) hasRoom = await isWritten(async () => await file.write(block))
      }
    },
    async free () { await rm(filler, { force: true }) },
    // Lazy: a process that is just ending may still have a file open.
    async unmount () { await run('umount', ['--lazy', folder]) }
  }
}

/** False when the disk is full. */
async function isWritten (write: () => Promise<unknown>): Promise<boolean> {
  try {
    await write()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false
    throw error
  }
}
