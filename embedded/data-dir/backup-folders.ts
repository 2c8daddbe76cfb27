/** The folder of scheduled backups: a folder for each, named after the moment in which it began. */
import { hash } from 'node:crypto'
import { access, lstat, open, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { fieldsOf } from '../../engines/fields.ts'

export interface ScheduledBackup {
  folder: string
  /** Epoch milliseconds. */
  startedAt: number
  /** Whether it has its manifest, which is written last. */
  isComplete: boolean
  /** A symbolic link, as to a backup that somebody moved to another disk: it can be read, and is not ours to remove. */
  isLink: boolean
  /** Why nobody knows whether it is complete, in a sentence for people; absent when that is known. */
  unreadable?: string
}

export interface PrunedBackups {
  removed: string[]
  /** Of each that had to be left, and may be old: which and why, in a sentence for people. */
  left: string[]
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
 * Backups from the future count as the oldest: a clock was wrong, then or now, and a new backup is newer.
 *
 * @param now  Epoch milliseconds.
 */
export async function listBackups (root: string, now: number): Promise<ScheduledBackup[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    if (error.code === 'ENOTDIR') throw unusable(`${root} is a file, not a folder`, error)
    if (error.code === 'EACCES') throw unusable(`the user ${process.geteuid?.()} may not look into ${root}`, error)
    throw error
  })
  const candidates = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .sort((one, other) => one.name < other.name ? -1 : 1)
  const found = await Promise.all(candidates.map(async (entry) => {
    const [, year, month, day, hour, minute, second] = NAME.exec(entry.name)?.map(Number) ?? []
    if (year === undefined) return []
    const folder = path.join(root, entry.name)
    const startedAt = Date.UTC(year, month! - 1, day, hour, minute, second)
    return [{ folder, startedAt, isLink: entry.isSymbolicLink(), ...await lookInto(folder) }]
  }))
  const backups = found.flat()
  const isFromFuture = ({ startedAt }: ScheduledBackup): boolean => startedAt > now
  return [...backups.filter(isFromFuture), ...backups.filter((backup) => !isFromFuture(backup))]
}

/** Whose backups a folder has. */
const OWNER = 'installation.json'

/**
 * Refuses a folder with backups of another installation: each would remove those of the other as its own old ones. The
 * data directory may move, or be restored elsewhere, once the former one is gone. Containers often share the name
 * `/data`, so the password of Postgres, which never changes, identifies an installation.
 *
 * @returns what makes the folder that of this installation, after its first backup there.
 * @throws {MillraceError} `MILLRACE_FOLDER_UNUSABLE`.
 */
export async function refuseForeignBackups (root: string, dataDir: string): Promise<() => Promise<void>> {
  const read = async (file: string) => fieldsOf(await readFile(file, 'utf8').then(parseStoredJson).catch(() => null))
  const { postgresPassword = '' } = await read(path.join(dataDir, 'credentials.json'))
  const own = { installation: hash('sha256', String(postgresPassword)).slice(0, 16), dataDir: await realpath(dataDir).catch(() => dataDir) }
  const { installation = own.installation, dataDir: former = own.dataDir } = await read(path.join(root, OWNER))
  const isOwn = installation === own.installation &&
    (former === own.dataDir || !await access(path.join(String(former), 'credentials.json')).then(() => true, () => false))
  if (!isOwn) {
    throw new MillraceError('MILLRACE_FOLDER_UNUSABLE', `${root} has the backups of the installation in ${String(former)}; the one in ${dataDir} would remove them as its own old ones: ` +
      `set MILLRACE_BACKUP_FOLDER to a folder of its own, or if the other one is gone, remove ${path.join(root, OWNER)}`)
  }
  return async () => { await writeFile(path.join(root, OWNER), `${JSON.stringify(own)}\n`, { flush: true }) }
}

function unusable (why: string, cause: unknown): MillraceError {
  return new MillraceError('MILLRACE_FOLDER_UNUSABLE', `${why}: set MILLRACE_BACKUP_FOLDER to a folder that this user may use`, { cause })
}

/** A backup is readable by its owner alone: whether one of somebody else is complete, this user does not know. */
async function lookInto (folder: string): Promise<Pick<ScheduledBackup, 'isComplete' | 'unreadable'>> {
  try {
    await (await open(path.join(folder, MANIFEST))).close()
    return { isComplete: true }
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return { isComplete: false }
    return { isComplete: false, unreadable: await explain(folder, error, 'read') }
  }
}

/** Why something cannot be done with a backup: whose it is, and the command that gives it to this user. */
async function explain (folder: string, error: unknown, what: string): Promise<string> {
  const code = errorCode(error)
  const owner = await lstat(folder).then(({ uid }) => uid, () => undefined)
  const user = process.geteuid?.()
  if ((code !== 'EACCES' && code !== 'EPERM') || owner === undefined || owner === user) {
    return `${folder} cannot be ${what}: ${String(error instanceof Error ? error.message : error)}`
  }
  return `${folder} cannot be ${what} by the user ${user}, because it belongs to the user ${owner}: as an administrator, run ` +
    `"chown --recursive ${user} ${folder}"`
}

/**
 * Removes the backups that are older than the newest `keep` complete ones, and what killed or failed ones left.
 * Symbolic links stay, are not counted, and what they lead to is not touched: somebody keeps that backup elsewhere.
 *
 * One that cannot be read is left too, and not counted, as it may not be complete. Neither that nor one that cannot be
 * removed keeps the others from being removed.
 *
 * @param options.made  Folder of the one that was just made, which is the newest whatever its name says.
 */
export async function pruneBackups (
  root: string, { keep, now, made }: { keep: number, now: number, made?: string }
): Promise<PrunedBackups> {
  const found = (await listBackups(root, now)).filter(({ isLink }) => !isLink)
  const backups = found.filter(({ unreadable }) => unreadable === undefined)
  const complete = backups.filter(({ isComplete }) => isComplete)
  const isMade = ({ folder }: ScheduledBackup): boolean => folder === made
  const kept = new Set([...complete.filter((backup) => !isMade(backup)), ...complete.filter(isMade)].slice(-keep))
  const pruned: PrunedBackups = { removed: [], left: found.flatMap(({ unreadable }) => unreadable ?? []) }
  for (const { folder } of backups.filter((backup) => !kept.has(backup))) {
    try {
      // Without it the folder is no backup, at whatever file the removal is interrupted.
      await rm(path.join(folder, MANIFEST), { force: true })
      await rm(folder, { recursive: true, force: true })
      pruned.removed.push(folder)
    } catch (error) {
      pruned.left.push(await explain(folder, error, 'removed'))
    }
  }
  return pruned
}
