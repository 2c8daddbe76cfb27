/**
 * A disk whose power can be cut, for root on Linux. A file system on a loop device keeps in its image what it gave to
 * the disk, and loses what was still in the memory of the machine. A disk has a memory as well: for that the image lies
 * on a second file system, which is cut too.
 *
 * ```
 *   folder: the chosen file system      what was not flushed is in memory: lost, or written in parts
 *     image                             its loop device
 *       ext4, only for `random`         what the loop device was not asked to flush: written in parts
 *         image, in memory              what survives
 * ```
 */
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { waitFor } from '../../support/wait-for.ts'

const run = promisify(execFile)

/** File systems, and how they are mounted. As far as can be configured, only explicitly flushed data is written. */
const FILE_SYSTEMS = {
  ext4: { make: ['mkfs.ext4', '-q', '-F', '-m', '0', '-E', 'lazy_itable_init=0,lazy_journal_init=0'], mount: 'loop,commit=300' },
  // Without what ext4 does for programs that rename a file that they did not flush.
  'ext4-noauto_da_alloc': { make: ['mkfs.ext4', '-q', '-F', '-m', '0', '-E', 'lazy_itable_init=0,lazy_journal_init=0'], mount: 'loop,commit=300,noauto_da_alloc' },
  xfs: { make: ['mkfs.xfs', '-q', '-f'], mount: 'loop' }
} as const

export type FileSystem = keyof typeof FILE_SYSTEMS

/** Names of `--disk`. */
export const FILE_SYSTEM_NAMES = Object.keys(FILE_SYSTEMS) as FileSystem[]

/** What becomes of blocks that nobody flushed: all are lost, or each is kept or lost by chance. */
export type Unflushed = 'lost' | 'random'

export interface PowerDiskOptions {
  /** Default `ext4`. */
  fileSystem?: FileSystem
  /** Default `lost`. */
  unflushed?: Unflushed
}

/** What a power failure does to a disk. */
export interface DiskPower {
  /**
   * From now on nothing reaches the disk any more: what was written and not flushed is lost.
   *
   * @param seed  Chooses the blocks that are kept all the same, with `random`.
   */
  cut (seed?: number): Promise<void>
  /** Mounts the disk as it is, by its journal. No process may have a file open on it. */
  restore (): Promise<void>
}

/**
 * EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH, of the kernel's fs/ext4/ext4.h, which is XFS_IOC_GOINGDOWN as
 * well: aborts the journal at once and writes nothing more, which is there for testing exactly this. Perl is on every
 * Debian; Node has no ioctl.
 */
const SHUT_DOWN = 'open(my $folder, "<", $ARGV[0]) or die $!; my $flags = pack("L", 2); ' +
  'ioctl($folder, 0x8004587d, $flags) or die $!'

/**
 * Writes pieces of files to the disk, each with probability 1/2, as Linux does in its own time: sync_file_range flushes
 * no name, no size and no cache of a disk. Arguments: seed, number of that system call, size of the pieces, files.
 */
const WRITE_PARTS = 'my ($seed, $call, $piece, @files) = @ARGV; srand($seed); ' +
  'for my $name (@files) { open(my $file, "<", $name) or next; my $size = -s $file; ' +
  'for (my $at = 0; $at < $size; $at += $piece) { syscall($call, fileno($file), $at, $piece + 0, 7) if rand() < 0.5 } }'

const SYNC_FILE_RANGE = { x64: 277, arm64: 84 }

/** A block of the file systems, and what Linux writes of a file at a time, in bytes. */
const BLOCK_BYTES = 4096
const FILE_PIECE_BYTES = 65_536

/** Processes that were just killed may hold their files for a moment, in milliseconds. */
const UNMOUNT_TIMEOUT_MS = 30_000

/** Of the file system around the image: journal, tables. */
const AROUND_BYTES = 100_000_000

export interface MountPowerDisk extends PowerDiskOptions {
  folder: string
  bytes: number
  /** Gets what takes the mounts away, to be called from the last one to the first. */
  unmountAll: (() => Promise<unknown>)[]
}

/**
 * Mounts the disk. Loop devices go away with their mounts, and all with the mount namespace of this program.
 *
 * @throws when there are no loop devices, or not the programs of the file system.
 */
export async function mountPowerDisk (options: MountPowerDisk): Promise<DiskPower> {
  const { folder, bytes, unmountAll, fileSystem = 'ext4', unflushed = 'lost' } = options
  const store = await mkdtemp(path.join(tmpdir(), 'millrace-faults-disk-'))
  unmountAll.push(async () => await rm(store, { recursive: true, force: true }))
  await run('mount', ['-t', 'tmpfs', '-o', `size=${bytes + 2 * AROUND_BYTES}`, 'millrace-faults-disk', store])
  unmountAll.push(async () => await run('umount', ['--lazy', store]))

  const mounts: { image: string, on: string, options: string }[] = []
  const mount = async (image: string, on: string, kind: FileSystem): Promise<void> => {
    const { make: [program, ...args], mount: options } = FILE_SYSTEMS[kind]
    await run(program, [...args, image])
    await run('mount', ['-o', options, image, on])
    unmountAll.push(async () => await run('umount', ['--lazy', on]))
    mounts.push({ image, on, options })
  }

  let image = path.join(store, 'image')
  await run('truncate', ['--size', String(bytes + (unflushed === 'random' ? AROUND_BYTES : 0)), image])
  if (unflushed === 'random') {
    const cache = path.join(store, 'cache')
    await mkdir(cache)
    await mount(image, cache, 'ext4')
    image = path.join(cache, 'image')
    // Written, not only reserved: where a block is must not be news for the journal around it.
    await run('dd', ['if=/dev/zero', `of=${image}`, 'bs=1M', `count=${Math.floor(bytes / 1_048_576)}`, 'conv=fsync'])
  }
  await mount(image, folder, fileSystem)
  // Postgres runs as another user when we are root.
  await chmod(folder, 0o755)
  return {
    async cut (seed = 1) {
      if (unflushed === 'random') {
        await writeParts(await listFiles(folder), seed, FILE_PIECE_BYTES)
        await writeParts([image], seed, BLOCK_BYTES)
      }
      // The outer one first: the journal of the inner one may not end in good order.
      for (const { on } of mounts) await run('perl', ['-e', SHUT_DOWN, on]).catch(ignoreSecond(on !== mounts[0]?.on))
    },
    async restore () {
      for (const { on } of mounts.toReversed()) {
        await waitFor(async () => await run('umount', [on]).then(() => true, () => false), { timeoutMs: UNMOUNT_TIMEOUT_MS })
      }
      for (const { image, on, options } of mounts) await run('mount', ['-o', options, image, on])
    }
  }
}

/** The inner file system may have ended itself by then, with the errors of its disk. */
function ignoreSecond (isSecond: boolean): (error: unknown) => void {
  return (error) => { if (!isSecond) throw error }
}

async function listFiles (folder: string): Promise<string[]> {
  const { stdout } = await run('find', [folder, '-xdev', '-type', 'f', '-size', '+0'], { maxBuffer: 67_108_864 })
  return stdout.split('\n').filter(Boolean)
}

async function writeParts (files: readonly string[], seed: number, pieceBytes: number): Promise<void> {
  const call = SYNC_FILE_RANGE[process.arch as keyof typeof SYNC_FILE_RANGE]
  if (call === undefined) throw new Error(`sync_file_range has no number for ${process.arch} here`)
  // Arguments of one command are bounded.
  for (let from = 0; from < files.length; from += 1000) {
    await run('perl', ['-e', WRITE_PARTS, String(seed + from), String(call), String(pieceBytes), ...files.slice(from, from + 1000)])
  }
}
