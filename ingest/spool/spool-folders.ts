import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { mkdirSync } from 'node:fs'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import { type FileLock, flushFolder, makeFolder, tryLockFile } from '../../platform/durable-folder.ts'
import { publishOrSetAside } from '../publish/durable-publisher.ts'
import type { Publish } from '../publish/acknowledged-publisher.ts'
import type { StreamLink } from '../publish/stream-link.ts'
import { listSegments } from './segment-writer.ts'
import { drainSpool } from './drain-spool.ts'
import { hasRefusedRecords, Spool } from './spool.ts'
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
 * Publishes, in the background, what processes that no longer run have left.
 *
 * @param options.retire  Called with each folder that is empty now, while this process has its lock.
 */
export function adoptSpools (
  options: OpenSpoolsOptions & { link: StreamLink, retire: (folder: string) => Promise<void> }
): IntervalLoop {
  const { link, logger } = options

  async function run (signal: AbortSignal): Promise<void> {
    if (!link.isUp()) return
    for (const spool of await adoptOrphanedSpools(options)) {
      const publish: Publish = async (message) => { await publishOrSetAside(message, { link, spool }) }
      await drainSpool({ spool, publish, onProgress: () => {}, logger, signal })
      if (spool.isSettled) await options.retire(spool.folder).finally(async () => await spool.close())
      else await spool.close()
    }
  }

  return runAtIntervals({
    everyMs: ADOPT_INTERVAL_MS, run, logger, failure: 'could not take over the spools of dead processes', stopWithinMs: Infinity
  })
}

/**
 * Takes every folder that has messages or an entry in NATS, and whose process no longer runs. The caller drains and
 * closes them.
 */
export async function adoptOrphanedSpools ({ root, logger }: OpenSpoolsOptions): Promise<Spool[]> {
  const adopted: Spool[] = []
  for (const folder of await listSpools(root)) {
    if (!await hasMessages(folder) && await readRegistration(folder) === 'unregistered') continue
    const lock = tryLockFolder(folder)
    if (lock === null) continue
    logger.warn({ folder }, 'took over the spool of a process that no longer runs')
    // Nothing is appended to it here.
    adopted.push(await Spool.open({ folder, lock, maxBytes: 0, logger }))
  }
  return adopted
}

async function hasMessages (folder: string): Promise<boolean> {
  return (await listSegments(folder)).length > 0 || await hasRefusedRecords(folder)
}

async function listSpools (root: string): Promise<string[]> {
  return (await readdir(root)).filter((name) => /^\d+$/.test(name)).map((name) => path.join(root, name))
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
