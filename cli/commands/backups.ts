import { stat } from 'node:fs/promises'
import path from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { listBackups, nameBackup, type PrunedBackups, pruneBackups, refuseForeignBackups, type ScheduledBackup } from '../../embedded/data-dir/backup-folders.ts'
import { MillraceError } from '../../engines/errors.ts'
import { type BackupRecord, readLastFolder, recordBackup } from '../backup/backup-records.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { findLostFile } from '../backup/backup-files.ts'
import { type BackupManifest, listLost, readManifest } from '../backup/backup-folder.ts'
import { createBackup } from '../backup/create-backup.ts'
import { restoreBackup } from '../backup/restore-backup.ts'
import type { CliContext } from '../cli-context.ts'
import { readDuration, readInstant, readString } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows, toText } from '../terminal-output.ts'

/** Longest wait of a scheduled backup until acknowledged events are stored, in milliseconds. */
const STORE_MS = 300_000

/** `millrace backups run|list|record`: the folder of scheduled backups. */
export function addBackupsCommands (program: Command, context: CliContext): void {
  const backups = program.command('backups').description('scheduled backups, in MILLRACE_BACKUP_FOLDER')

  backups.command('run')
    .description('make a backup now, sharing unchanged files with the last one, and remove the oldest beyond MILLRACE_BACKUP_KEEP.\n' +
      '"millrace start" does this every MILLRACE_BACKUP_INTERVAL_HOURS')
    .option('--emptied', 'go on although the folder lost all its backups: they were removed on purpose, and its disk is mounted')
    .option(...JSON_OPTION)
    .action(async ({ emptied = false, ...output }: Output & { emptied?: boolean }) => {
      const { root, keep } = readFolder(context)
      printFields(context, await runBackup(context, { root, keep, emptied }), output)
    })

  backups.command('list')
    .description('list backups, newest first')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      const { root } = readFolder(context)
      const found = await listBackups(root, context.now())
      if (found.length === 0) await explainNone(context, root)
      const rows = await Promise.all(found.reverse().map(async (backup) =>
        ({ folder: backup.folder, startedAt: new Date(backup.startedAt), ...await describe(backup) })))
      printRows<Record<string, unknown>>(context, rows, [
        'folder', ['version', ({ version, damage }) => damage ?? version ?? 'not complete'], 'events', 'bytes', ['shared bytes', 'shared_bytes']
      ], output)
      for (const { unreadable } of found) if (unreadable !== undefined) context.stderr.write(`${unreadable}\n`)
    })

  backups.command('record')
    .description('record a backup made by another program, for health, metrics and alerts; run it at the end of your own backup job')
    .option('--started-at <time>', 'when it began; default: now', readInstant)
    .option('--error <text>', 'error of a failed backup, of which 1000 characters are kept; without it, the backup counts as complete', readString(131_072), '')
    .option('--folder <text>', 'location of a complete backup, for display', readString(1000), '')
    .option(...JSON_OPTION)
    .action(async (options: Output & { error: string, startedAt?: Date, folder: string }) => {
      const { error, folder, startedAt, ...output } = options
      // Without either, a timer that made nothing, or a try by hand, would silence the alert on their age.
      if (error === '' && folder === '') {
        throw new InvalidArgumentError('give the location of the backup (--folder <text>) or its error (--error <text>): ' +
          'this only records a backup made by another program. "millrace backups run" backs up the embedded stack')
      }
      const now = new Date(context.now())
      if (startedAt !== undefined && startedAt > now) throw new InvalidArgumentError('--started-at is in the future')
      const times = { startedAt: startedAt ?? now, endedAt: now }
      await recordBackup(await context.postgres(), { ...times, error, folder, bytes: 0, sharedBytes: 0 })
      printFields(context, { recorded: error === '' ? 'complete' : 'failed', ...times, folder, error }, output)
    })
}

/**
 * Makes a backup in a new folder below `root`, removes the old ones, and records it. A failed one leaves nothing but
 * its record; old ones that have to be left are a warning of its record, which health, metrics and status show.
 */
async function runBackup (
  context: CliContext, { root, keep, emptied }: { root: string, keep: number, emptied: boolean }
): Promise<Record<string, unknown>> {
  const startedAt = new Date(context.now())
  const folder = path.join(root, nameBackup(startedAt.getTime()))
  const record = async (outcome: Omit<BackupRecord, 'startedAt' | 'endedAt' | 'folder'>): Promise<void> => {
    await recordBackup(await context.postgres(), { startedAt, endedAt: new Date(context.now()), folder, ...outcome })
  }
  const dataDir = findDataDir(context)
  let manifest: BackupManifest
  let claim = async (): Promise<void> => {}
  let { removed, left }: PrunedBackups = { removed: [], left: [] }
  // Only under the lock of backups: a folder without manifest may be what another process is writing.
  const onEnd = async (isMade: boolean): Promise<void> => {
    ({ removed, left } = await pruneBackups(root, { keep: isMade ? keep : Infinity, now: context.now(), made: folder })
      .catch((error: unknown) => ({ removed: [], left: [`no old backup was removed: ${String(error)}`] })))
    // Without it, backups of others are not refused; this one is complete all the same.
    if (isMade) await claim().catch(() => {})
  }
  try {
    const base = await findBase(root, context.now())
    if (!emptied) await refuseWhenLost(context, root)
    claim = await refuseForeignBackups(root, dataDir)
    manifest = await createBackup(context, { dataDir, folder, base, storeMs: STORE_MS, onEnd })
  } catch (error) {
    // Another one is being made, which is no failure.
    if (error instanceof MillraceError && error.code === 'MILLRACE_BACKUP_RUNNING') throw error
    const text = error instanceof Error ? error.message : String(error)
    await record({ error: text, bytes: 0, sharedBytes: 0 }).catch(() => {})
    throw error
  }
  const summary = summarize(manifest)
  const lost = listLost(manifest)
  const warning = [...left, ...lost.length === 0 ? [] : [`it leaves out ${lost.length}: ${lost.join('; ')}`]].join('; ')
  await record({ error: '', warning, bytes: summary.bytes, sharedBytes: summary.shared_bytes })
  if (left.length > 0) context.stderr.write(`the backup is made, but ${left.join('; ')}\n`)
  sayLeftOut(context, summary.left_out)
  return { folder, ...summary, removed, left }
}

/**
 * The newest backup that can be read: a damaged one is no reason to make no more. Not a link, which leads to another
 * disk as a rule: files cannot be shared with that.
 */
async function findBase (root: string, now: number): Promise<string | undefined> {
  for (const { folder, isComplete, isLink } of (await listBackups(root, now)).reverse()) {
    if (isComplete && !isLink && await readManifest(folder).then(() => true, () => false)) return folder
  }
  return undefined
}

/**
 * A disk that is not mounted leaves an empty folder, or none: backups would go to the disk of the system.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_FOLDER_EMPTY` when the last backup was made here, and none is here.
 */
async function refuseWhenLost (context: CliContext, root: string): Promise<void> {
  // Before the folder is read: another backup may be completed at any moment.
  const last = await readLastFolder(await context.postgres())
  const found = await listBackups(root, context.now())
  // The disk is there, wherever a link leads, and although somebody else's backup cannot be read.
  if (found.some(({ isComplete, isLink, unreadable }) => isComplete || isLink || unreadable !== undefined)) return
  if (path.dirname(last) !== root) return
  throw new MillraceError('MILLRACE_BACKUP_FOLDER_EMPTY', `${root} no longer has any backup, not even the last one, ${path.basename(last)}: ` +
    'is its disk mounted? If they were removed on purpose, run "millrace backups run --emptied" once')
}

async function describe ({ folder, isComplete, unreadable }: ScheduledBackup): Promise<Record<string, unknown>> {
  if (unreadable !== undefined) return { damage: 'not readable' }
  if (!isComplete) return {}
  const manifest = await readManifest(folder).catch(() => undefined)
  if (manifest === undefined) return { damage: 'damaged' }
  const lost = await findLostFile(folder, manifest.files)
  return { ...summarize(manifest), ...lost === undefined ? {} : { damage: 'damaged', lost_file: lost.path } }
}

/**
 * Says why the list is empty.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_NOT_FOUND` when there is no folder: its disk may not be mounted.
 */
async function explainNone ({ stderr }: CliContext, root: string): Promise<void> {
  if (!await stat(root).then(() => true, () => false)) {
    throw new MillraceError('MILLRACE_BACKUP_NOT_FOUND', `there is no folder ${root} (MILLRACE_BACKUP_FOLDER): no backup was made there yet, ` +
      'or its disk is not mounted')
  }
  stderr.write(`${root} holds no backup\n`)
}

function readFolder ({ env }: CliContext): { root: string, keep: number } {
  const settings = loadSettings(env, ['MILLRACE_BACKUP_FOLDER', 'MILLRACE_BACKUP_KEEP'])
  if (settings.MILLRACE_BACKUP_FOLDER === '') {
    throw new MillraceError('MILLRACE_BACKUP_NO_FOLDER', 'set MILLRACE_BACKUP_FOLDER to the folder of scheduled backups, ' +
      'or make one by "millrace backup <folder>"')
  }
  return { root: path.resolve(settings.MILLRACE_BACKUP_FOLDER), keep: settings.MILLRACE_BACKUP_KEEP }
}

/** `millrace backup DIR` and `millrace restore DIR`, for the embedded stack. */
export function addBackupCommands (program: Command, context: CliContext): void {
  program.command('backup')
    .description('copy all data of the running embedded stack into an empty folder')
    .argument('<folder>', 'empty or missing folder')
    .option('--base <folder>', 'earlier backup to share unchanged files with, as hard links')
    .option('--wait <duration>', 'maximum wait until all acknowledged events are stored', readDuration, 300)
    .option(...JSON_OPTION)
    .action(async (folder: string, { wait, base, ...output }: Output & { wait: number, base?: string }) => {
      const options = {
        dataDir: findDataDir(context), folder: path.resolve(folder), storeMs: wait * 1000,
        base: base === undefined ? undefined : path.resolve(base)
      }
      const manifest = await createBackup(context, options)
      const summary = summarize(manifest)
      sayLeftOut(context, summary.left_out)
      printFields(context, summary, output)
    })

  program.command('restore')
    .description('fill an empty data directory from a backup; Millrace must not be running on it')
    .argument('<folder>', 'folder that "backup" wrote')
    .option(...JSON_OPTION)
    .action(async (folder: string, output: Output) => {
      const options = { dataDir: findDataDir(context), folder: path.resolve(folder) }
      const { manifest, migrations, leftOut, erased } = await restoreBackup(context, options)
      const { left_out: lacked, ...summary } = summarize(manifest)
      sayLeftOut(context, [...lacked, ...leftOut])
      printFields(context, { ...summary, left_out: [...lacked, ...leftOut], erased_again: erased, migrations }, output)
    })
}

/** Absolute. */
function findDataDir ({ env }: CliContext): string {
  return path.resolve(loadSettings(env, ['MILLRACE_DATA_DIR']).MILLRACE_DATA_DIR)
}

function summarize (manifest: BackupManifest) {
  return {
    version: manifest.version,
    complete_up_to: manifest.startedAt,
    events: manifest.clickhouse.tables.events?.rows ?? 0,
    persons: manifest.postgres.tables.persons?.rows ?? 0,
    dead_letters: manifest.deadLetters,
    files: manifest.files.length,
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
    shared_bytes: manifest.base?.sharedBytes ?? 0,
    left_out: manifest.leftOut.map(({ what }) => what)
  }
}

function sayLeftOut ({ stderr }: CliContext, leftOut: readonly string[]): void {
  for (const what of leftOut) stderr.write(`left out: ${toText(what)}\n`)
}
