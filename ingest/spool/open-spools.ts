import { mkdir, readdir } from 'node:fs/promises'
import path from 'node:path'
import { type Logger } from '../../platform/logger.ts'
import { flushFolder } from '../../platform/durable-folder.ts'
import { tryLockFolder } from './folder-lock.ts'
import { listSegments } from './segment-files.ts'
import { Spool } from './spool.ts'

export interface OpenSpoolsOptions {
  /** Folder of all spools of this machine: one numbered folder for each ingest process that ran at a time. */
  root: string
  maxBytes: number
  logger: Logger
}

/** More ingest processes than this on one data directory are a mistake. */
const MAX_SLOTS = 256

/**
 * Takes the first spool folder that no living process has. After a crash that is the one of the crashed process, and
 * what it left is published by its successor.
 */
export async function openOwnSpool ({ root, maxBytes, logger }: OpenSpoolsOptions): Promise<Spool> {
  await mkdir(root, { recursive: true })
  for (let slot = 0; slot < MAX_SLOTS; slot++) {
    const folder = path.join(root, String(slot))
    const lock = tryLockFolder(folder)
    if (lock === null) continue
    // Segments flush themselves and their names; the folders they are in must outlast a power failure, too.
    for (const parent of [root, path.dirname(root)]) await flushFolder(parent)
    return await Spool.open({ folder, lock, maxBytes, logger })
  }
  throw new Error(`all ${MAX_SLOTS} spool folders of ${root} are in use`)
}

/** Takes every folder that holds messages and whose process is gone. The caller drains and closes them. */
export async function adoptOrphanedSpools ({ root, logger }: OpenSpoolsOptions): Promise<Spool[]> {
  const adopted: Spool[] = []
  for (const name of await readdir(root)) {
    if (!/^\d+$/.test(name)) continue
    const folder = path.join(root, name)
    if ((await listSegments(folder)).length === 0) continue
    const lock = tryLockFolder(folder)
    if (lock === null) continue
    logger.warn({ folder }, 'took over the spool of a process that is gone')
    // Nothing is appended to it here.
    adopted.push(await Spool.open({ folder, lock, maxBytes: 0, logger }))
  }
  return adopted
}
