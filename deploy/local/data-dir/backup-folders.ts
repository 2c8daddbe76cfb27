/** The folder of scheduled backups: a folder for each, named after the moment in which it began. */
import { readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'

export interface ScheduledBackup {
  folder: string
  /** Epoch milliseconds. */
  startedAt: number
  /** Whether it has its manifest, which is written last. */
  isComplete: boolean
  /** A symbolic link, as to a backup that somebody moved to another disk: it can be read, and is not ours to remove. */
  isLink: boolean
}

const MANIFEST = 'manifest.json'
const NAME = /^millrace-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/

/** Name of the folder of a backup: `millrace-20261122T023000Z`. */
export function nameBackup (startedAt: number): string {
  return `millrace-${new Date(startedAt).toISOString().replaceAll(/[-:]|\.\d+/g, '')}`
}

/**
 * The backups in a folder, the oldest first; other names are passed over. Empty when there is no such folder.
 *
 * Those from the future come before all others: a clock was wrong, then or now, and what is made now is newer.
 *
 * @param now  Epoch milliseconds.
 */
export async function listBackups (root: string, now: number): Promise<ScheduledBackup[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const candidates = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .sort((one, other) => one.name < other.name ? -1 : 1)
  const found = await Promise.all(candidates.map(async (entry) => {
    const [, year, month, day, hour, minute, second] = NAME.exec(entry.name)?.map(Number) ?? []
    if (year === undefined) return []
    const folder = path.join(root, entry.name)
    const isComplete = await stat(path.join(folder, MANIFEST)).then(() => true, () => false)
    const startedAt = Date.UTC(year, month! - 1, day, hour, minute, second)
    return [{ folder, startedAt, isComplete, isLink: entry.isSymbolicLink() }]
  }))
  const backups = found.flat()
  const isFromFuture = ({ startedAt }: ScheduledBackup): boolean => startedAt > now
  return [...backups.filter(isFromFuture), ...backups.filter((backup) => !isFromFuture(backup))]
}

/**
 * Removes the backups that are older than the newest `keep` complete ones, and what killed or failed ones left.
 * Symbolic links stay, are not counted, and what they lead to is not touched: somebody keeps that backup elsewhere.
 *
 * @param options.made  Folder of the one that was just made, which is the newest whatever its name says.
 * @returns the removed folders.
 */
export async function pruneBackups (
  root: string, { keep, now, made }: { keep: number, now: number, made?: string }
): Promise<string[]> {
  const backups = (await listBackups(root, now)).filter(({ isLink }) => !isLink)
  const complete = backups.filter(({ isComplete }) => isComplete)
  const isMade = ({ folder }: ScheduledBackup): boolean => folder === made
  const kept = new Set([...complete.filter((backup) => !isMade(backup)), ...complete.filter(isMade)].slice(-keep))
  const removed = backups.filter((backup) => !kept.has(backup))
  for (const { folder } of removed) {
    // Without it the folder is no backup, at whatever file the removal is interrupted.
    await rm(path.join(folder, MANIFEST), { force: true })
    await rm(folder, { recursive: true, force: true })
  }
  return removed.map(({ folder }) => folder)
}
