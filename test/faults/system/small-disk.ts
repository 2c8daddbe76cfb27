import { execFile, spawn } from 'node:child_process'
import { chmod, mkdtemp, open, rm } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { waitFor } from '../../support/wait-for.ts'

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

/** What a power failure does to a disk. */
export interface DiskPower {
  /** From now on nothing reaches the disk any more: what was written and not flushed is lost. */
  cut (): Promise<void>
  /** Mounts the disk as it is, by its journal. No process may have a file open on it. */
  restore (): Promise<void>
}

/** Room for the files of three services and an hour of the load. */
const DISK_BYTES = 1_500_000_000

const BLOCK_BYTES = [16_777_216, 65_536, 4096, 512]

/**
 * EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH, of the kernel's fs/ext4/ext4.h: aborts the journal at once and
 * writes nothing more, which is there for testing exactly this. Perl is on every Debian; Node has no ioctl.
 */
const SHUT_DOWN = 'open(my $folder, "<", $ARGV[0]) or die $!; my $flags = pack("L", 2); ' +
  'ioctl($folder, 0x8004587d, $flags) or die $!'

/** Processes that were just killed may hold their files for a moment, in milliseconds. */
const UNMOUNT_TIMEOUT_MS = 30_000

/**
 * Mounts a small file system on a folder: ext4 on a loop device, whose image is in memory; where there are no loop
 * devices, one in memory.
 *
 * @throws when mounting is not allowed here.
 */
export async function mountSmallDisk (folder: string): Promise<SmallDisk> {
  const unmountAll: (() => Promise<unknown>)[] = []
  const power = await mountImage(folder, unmountAll).catch(async () => {
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

/** Mounts ext4. The loop device goes away with its mount, and both with the mount namespace of this program. */
async function mountImage (folder: string, unmountAll: (() => Promise<unknown>)[]): Promise<DiskPower> {
  const store = await mkdtemp(path.join(tmpdir(), 'millrace-faults-disk-'))
  unmountAll.push(async () => await rm(store, { recursive: true, force: true }))
  await run('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES + 16_777_216}`, 'millrace-faults-disk', store])
  unmountAll.push(async () => await run('umount', ['--lazy', store]))
  const image = path.join(store, 'image')
  await run('truncate', ['--size', String(DISK_BYTES), image])
  await run('mkfs.ext4', ['-q', '-F', '-m', '0', '-E', 'lazy_itable_init=0,lazy_journal_init=0', image])
  // Nothing but what asks for it is flushed: the journal has no rhythm of its own, as far as it can be told.
  const mount = async (): Promise<unknown> => await run('mount', ['-o', 'loop,commit=300', image, folder])
  await mount()
  unmountAll.push(async () => await run('umount', ['--lazy', folder]))
  // Postgres runs as another user when we are root.
  await chmod(folder, 0o755)
  return {
    async cut () { await run('perl', ['-e', SHUT_DOWN, folder]) },
    async restore () {
      await waitFor(async () => await run('umount', [folder]).then(() => true, () => false), {
        timeoutMs: UNMOUNT_TIMEOUT_MS
      })
      await mount()
    }
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
