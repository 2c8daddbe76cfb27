import { execFile, spawn } from 'node:child_process'
import { open, rm } from 'node:fs/promises'
import { constants } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { type DiskPower, mountPowerDisk, type PowerDiskOptions } from './power-disk.ts'

const run = promisify(execFile)

/** A file system of a fixed size that can be filled. */
export interface SmallDisk {
  /** Leaves not one byte, until `free`. */
  fill (): Promise<void>
  free (): Promise<void>
  /** null: the file system is one in memory, which has nothing to flush. */
  power: DiskPower | null
  unmount (): Promise<void>
}

/** Room for the files of three services and an hour of the load. */
const DISK_BYTES = 1_500_000_000

const BLOCK_BYTES = [16_777_216, 65_536, 4096, 512]

/**
 * Mounts a small file system on a folder: one on a loop device, whose image is in memory; where there are no loop
 * devices or not that file system, one in memory.
 *
 * @throws when mounting is not allowed here.
 */
export async function mountSmallDisk (folder: string, options: PowerDiskOptions = {}): Promise<SmallDisk> {
  const unmountAll: (() => Promise<unknown>)[] = []
  const power = await mountPowerDisk({ ...options, folder, bytes: DISK_BYTES, unmountAll }).catch(async () => {
    for (const unmount of unmountAll.splice(0).reverse()) await unmount()
    await run('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=0755`, 'millrace-faults', folder])
    // Lazy: a process that is just ending may still have a file open.
    unmountAll.push(async () => await run('umount', ['--lazy', folder]))
    return null
  })
  const filler = path.join(folder, 'filler')
  return {
    power,
    async fill () {
      await using file = await open(filler, 'w')
      for (const bytes of BLOCK_BYTES) {
        const block = Buffer.alloc(bytes)
        let hasRoom = true
        while (hasRoom) hasRoom = await isWritten(async () => await file.write(block))
      }
    },
    async free () { await rm(filler, { force: true }) },
    async unmount () { for (const unmount of unmountAll.splice(0).reverse()) await unmount() }
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

/** Set in the process that runs inside. */
const INSIDE = 'MILLRACE_TEST_MOUNT_NAMESPACE'

/**
 * Runs this program again where its mounts are seen by it and its children only, and vanish with the last of them,
 * whatever ends them. For root on Linux; anybody else cannot mount anyway.
 *
 * @returns the exit code of that run; undefined in it, and where there is no such thing.
 */
export async function enterMountNamespace (): Promise<number | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0 || process.env[INSIDE] !== undefined) return undefined
  const child = spawn('unshare', [
    '--mount', '--propagation', 'private', process.execPath, ...process.execArgv, ...process.argv.slice(1)
  ], { stdio: 'inherit', env: { ...process.env, [INSIDE]: '1' } })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  return await new Promise((resolve) => {
    // No unshare here: the disk that cannot be mounted is reported.
    child.once('error', () => resolve(undefined))
    child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
  })
}
