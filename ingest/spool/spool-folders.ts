import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { mkdirSync } from 'node:fs'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import { type FileLock, flushFolder, makeFolder, tryLockFile } from '../../platform/durable-folder.ts'
import { publishOrSetAside } from '../publish/durable-publisher.ts'
import type { Publish } from '../publish/acknowledged-publisher.ts'
import type { StreamLink } from '../publish/stream-link.ts'
import { drainSpool } from './drain-spool.ts'
import { REFUSED_RECORD, Spool } from './spool.ts'
import { readRegistration } from '../registry/spool-registration.ts'

interface OpenSpoolsOptions {
  /** Folder of all spools of this machine: one numbered folder for each ingest process that ran at a time. */
  root: string
  maxBytes: number
  logger: Logger
}

/** More ingest processes than this on one data directory are an error of configuration. */
const MAX_SPOOLS = 256

/** How often to check for spools of processes that no longer run. */
const ADOPT_INTERVAL_MS = 10_000

/**
 * Takes the first spool folder that no living process has. After a crash that is the one of the crashed process, and
 * what it left is published by its successor.
 */
export async function openOwnSpool ({ root, maxBytes, logger }: OpenSpoolsOptions): Promise<Spool> {
  await makeFolder(path.resolve(root))
  for (let slot = 0; slot < MAX_SPOOLS; slot++) {
    const folder = path.join(root, String(slot))
    const lock = tryLockFolder(folder)
    if (lock === null) continue
    // Segments flush themselves and their names; the folders they are in must outlast a power failure, too.
    for (const parent of [root, path.dirname(root)]) await flushFolder(parent)
    return await Spool.open({ folder, lock, maxBytes, logger })
  }
  throw new Error(`all ${MAX_SPOOLS} spool folders of ${root} are in use`)
}

/**
 * Publishes, in the background, what processes that no longer run have left. `stop` waits for each folder in hand.
 *
 * @param options.retire  Called with each folder that is empty now, while this process has its lock.
 */
export function adoptSpools (
  options: OpenSpoolsOptions & { link: StreamLink, retire: (folder: string) => Promise<void> }
): Pick<IntervalLoop, 'stop'> {
  const { link, logger } = options
  /** Largest message of the stream when it refused what is left in a folder. */
  const refusedAt = new Map<string, number>()
  const draining = new Map<string, Promise<void>>()

  async function run (signal: AbortSignal): Promise<void> {
    if (!link.isUp()) return
    const mayTakeRefused = (folder: string): boolean => refusedAt.get(folder) !== link.maxPayloadBytes()
    await drainOrphanedSpools({ ...options, mayTakeRefused, draining }, async (spool) => {
      const publish: Publish = async (message) => { await publishOrSetAside(message, { link, spool }) }
      await drainSpool({ spool, publish, logger, signal })
      if (spool.isSettled) await options.retire(spool.folder)
      else refusedAt.set(spool.folder, link.maxPayloadBytes())
    })
  }

  const loop = runAtIntervals({
    everyMs: ADOPT_INTERVAL_MS, run, logger, failure: 'could not look for spools of dead processes', stopWithinMs: Infinity
  })
  return { stop: async () => { await loop.stop(); await Promise.all(draining.values()) } }
}

/**
 * Begins to drain each folder that has messages or an entry in NATS, and whose process no longer runs. None waits for
 * another one; errors are logged, and the next call tries again.
 *
 * @param options.mayTakeRefused  Whether to try refused messages again in a folder that has no others.
 * @param options.draining  The folders in hand, and when each has ended.
 */
export async function drainOrphanedSpools (
  { root, logger, mayTakeRefused, draining }: OpenSpoolsOptions &
    { mayTakeRefused: (folder: string) => boolean, draining: Map<string, Promise<void>> },
  drain: (spool: Spool) => Promise<void>
): Promise<void> {
  async function drainFolder (folder: string): Promise<void> {
    const names = await readdir(folder)
    const isRefused = names.some((name) => REFUSED_RECORD.test(name))
    const isToDo = isRefused ? mayTakeRefused(folder) : await readRegistration(folder) !== 'unregistered'
    if (!isToDo && !names.some((name) => name.endsWith('.segment'))) return
    const lock = tryLockFolder(folder)
    if (lock === null) return
    try {
      logger.warn({ folder }, 'took over the spool of a process that no longer runs')
      // Nothing is appended to it here.
      const spool = await Spool.open({ folder, lock, maxBytes: 0, logger })
      await drain(spool).finally(async () => await spool.close())
    } finally {
      lock.release()
    }
  }

  for (const folder of (await readdir(root)).filter((name) => /^\d+$/.test(name)).map((name) => path.join(root, name))) {
    if (draining.has(folder)) continue
    draining.set(folder, drainFolder(folder).catch((err: unknown) => {
      logger.warn({ err, folder }, 'could not drain the spool of a process that no longer runs; retrying')
    }).finally(() => { draining.delete(folder) }))
  }
}

/**
 * Takes the folder for this process, if no living process has it; creates it when it is missing.
 *
 * @returns null when another process has the folder.
 */
export function tryLockFolder (folder: string): FileLock | null {
  mkdirSync(folder, { recursive: true })
  return tryLockFile(path.join(folder, 'lock'))
}
