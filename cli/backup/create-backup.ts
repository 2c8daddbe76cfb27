import { constants, createReadStream } from 'node:fs'
import { access, readdir, rm, rmdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { describeRoom, explainFailedStart, explainUnusable, readRoom, type Room } from '../../embedded/data-dir/check-data-dir.ts'
import { findRunningStack, type StackAddresses } from '../../embedded/data-dir/stack-access.ts'
import { isRoot } from '../../embedded/postgres/postgres-cluster.ts'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { type FileLock, makeFolder, tryLockFile } from '../../platform/durable-folder.ts'
import { POSTGRES } from '../../schema/backup-statements.ts'
import { readCommit, readVersion } from '../../schema/version.ts'
import type { CliContext } from '../cli-context.ts'
import { startProgressBar } from '../terminal-output.ts'
import { refuseLostFiles, writeBackupFile } from './backup-files.ts'
import { type BackupManifest, type BaseBackup, openBase, refuseNestedBackup, writeManifest } from './backup-folder.ts'
import { copyEvents, dropCopy, readBooksOfCopy } from './books.ts'
import { freezeTables, removeFrozenTables } from './clickhouse-backup.ts'
import { backUpDeadLetters } from './dead-letters-backup.ts'
import { backUpPostgres } from './postgres-backup.ts'
import { waitUntilStored, whileInsertsAreHeld } from './quiesce.ts'
import { appendErasures } from '../../api/persons/erasure-file.ts'

export interface CreateBackupOptions {
  dataDir: string
  /** Folder of the backup: empty or missing. */
  folder: string
  /** Folder of an earlier backup, with which it shares what did not change. */
  base?: string | undefined
  /** Maximum wait until the events acknowledged so far are stored, in milliseconds. */
  storeMs: number
  /** Runs when it is made, or has failed, before another backup of the data directory may begin. Never throws. */
  onEnd?: (isMade: boolean) => Promise<void>
}

const SPARE: Room = { bytes: 100_000_000, files: 500 }

/** Dead letters that existed at the start of the backup, and those that were added until the snapshot. */
export const DEAD_LETTER_FILES = ['dead-letters-1.jsonl.zst', 'dead-letters-2.jsonl.zst'] as const

/**
 * Backs up the running embedded stack:
 *
 * 1. wait until all events acknowledged so far are stored or dead-lettered        quiesce.ts
 * 2. hold inserts back; take a snapshot of both databases; let inserts go on      quiesce.ts, clickhouse-backup.ts
 * 3. copy the snapshot and the dead letters                                       *-backup.ts
 * 4. write the manifest, which makes the folder a complete backup                 backup-folder.ts
 *
 * Ingest accepts events all the time. Inserts wait only during step 2, for some tens of milliseconds.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_NO_ROOM` when the disk is too small. What a failed one wrote is removed.
 */
export async function createBackup (context: CliContext, options: CreateBackupOptions): Promise<BackupManifest> {
  const { dataDir, folder, onEnd } = options
  const addresses = await findStack(dataDir)
  await refuseRootForAnother(dataDir)
  await refuseNestedBackup(options)
  const base = options.base === undefined ? undefined : await openBase(options.base)
  const lock = await lockBackups(dataDir)
  let isMade = false
  try {
    const isNew = await makeEmptyFolder(folder)
    try {
      await removeSnapshots(context, dataDir)
      const manifest = await copyAll(context, addresses, { ...options, base })
      await removeSnapshots(context, dataDir)
      await refuseLostFiles(folder, manifest.files)
      // Last: if a later step failed, a failed backup would look complete.
      await writeManifest(folder, manifest)
      isMade = true
      return manifest
    } catch (error) {
      const explained = await explainFailedWrite(folder, error)
      await removeSnapshots(context, dataDir).catch(() => {})
      // Room for others, above all on a full disk; and the command may be run again.
      for (const name of await readdir(folder).catch(() => [])) {
        await rm(path.join(folder, name), { recursive: true, force: true }).catch(() => {})
      }
      // Stays when somebody put something into it, or when its disk cannot be written to any more.
      if (isNew) await rmdir(folder).catch(() => {})
      throw explained
    }
  } catch (error) {
    // The snapshot is made of links in the data directory, for which its disk may have no room.
    throw error instanceof MillraceError ? error : await explainFailedStart(dataDir, error)
  } finally {
    await onEnd?.(isMade)
    lock.release()
  }
}

/** Removes what this backup, or a killed one, keeps of merged parts: hard links, and the copy of the events. */
async function removeSnapshots (context: CliContext, dataDir: string): Promise<void> {
  await Promise.all([removeFrozenTables(path.join(dataDir, 'clickhouse')), context.clickhouse().then(dropCopy)])
}

/** Explains the error of a backup whose disk filled up, disappeared or became read-only. */
async function explainFailedWrite (folder: string, cause: unknown): Promise<unknown> {
  const code = errorCode(cause)
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new MillraceError('MILLRACE_BACKUP_NO_ROOM', `the disk of ${folder} filled up (${code}), so the incomplete backup was removed. ` +
      'Remove older backups, or choose another disk', { cause })
  }
  const refusal = await access(folder, constants.W_OK | constants.X_OK)
    .then(() => undefined, (error: NodeJS.ErrnoException) => error.code)
  if (refusal === undefined) return cause
  const what = await stat(folder).then(() => 'could no longer be written to', () => 'disappeared')
  return new MillraceError('MILLRACE_FOLDER_UNUSABLE', `the folder ${folder} ${what} during the backup ` +
    `(${code || refusal}): is its disk still mounted, and writable?`, { cause })
}

async function copyAll (
  context: CliContext, addresses: StackAddresses,
  { dataDir, folder, base, storeMs }: Omit<CreateBackupOptions, 'base'> & { base: BaseBackup | undefined }
): Promise<BackupManifest> {
  const [nats, sql, clickhouse] = [await context.nats(), await context.postgres(), await context.clickhouse()]
  const startedAt = new Date(context.now()).toISOString()
  const commit = readCommit()

  // First, because a dead letter that is replayed meanwhile may be gone later.
  const letters = await backUpDeadLetters(nats, folder, DEAD_LETTER_FILES[0], 1)
  await waitUntilStored({ connection: nats, readSpoolBytes: () => readSpoolBytes(dataDir), timeoutMs: storeMs })
  await appendErasures(sql, path.dirname(folder))
  return await sql.begin('isolation level repeatable read read only', async (transaction) => {
    const frozen = await whileInsertsAreHeld(addresses.clickhouseUrl, async () => {
      // The first statement takes the snapshot of a repeatable-read transaction.
      await transaction.unsafe(POSTGRES.takeSnapshot)
      await copyEvents(clickhouse)
      return await freezeTables(clickhouse, path.join(dataDir, 'clickhouse'), context.now().toString(36))
    })
    const snapshotAt = new Date(context.now()).toISOString()
    const laterLetters = await backUpDeadLetters(nats, folder, DEAD_LETTER_FILES[1], letters.nextId)
    const [{ bytes } = { bytes: 0 }] = await transaction.unsafe<{ bytes: number }[]>(POSTGRES.readBytes)
    await checkRoom(folder, { bytes: frozen.newBytes(base) + bytes, files: frozen.files })
    const books = await readBooksOfCopy(clickhouse)
    const bar = startProgressBar(context, 'backing up', frozen.bytes + bytes)
    const postgres = await backUpPostgres(transaction, folder, bar.add)
    const credentials = await writeBackupFile(folder, 'credentials.json', createReadStream(path.join(dataDir, 'credentials.json')))
    const parts = await frozen.copyTo(folder, { base, onBytes: bar.add })
    bar.end()
    return {
      format: 1, version: readVersion(), ...commit === undefined ? {} : { commit }, startedAt, snapshotAt,
      clickhouse: frozen.about, postgres: postgres.about, deadLetters: letters.letters + laterLetters.letters, books,
      leftOut: [...frozen.leftOut, ...postgres.leftOut],
      ...base === undefined ? {} : { base: { folder: base.folder, sharedBytes: parts.sharedBytes } },
      files: [credentials, letters.file, laterLetters.file, ...postgres.files, ...parts.files]
    }
  })
}

/** Admits one backup at a time, because each removes the snapshots of killed ones. */
async function lockBackups (dataDir: string): Promise<FileLock> {
  const lock = await Promise.try(() => tryLockFile(path.join(dataDir, 'backup.lock')))
    .catch(async (error: unknown) => { throw await explainUnusable(dataDir, error) })
  if (lock !== null) return lock
  throw new MillraceError('MILLRACE_BACKUP_RUNNING', `another backup of ${dataDir} is running: wait until it ends`)
}

async function findStack (dataDir: string): Promise<StackAddresses> {
  const addresses = await findRunningStack(dataDir)
  if (addresses === undefined) {
    throw new MillraceError('MILLRACE_BACKUP_NO_STACK', `no stack runs on the data directory ${dataDir}: start it with ` +
      '"npm start", or set MILLRACE_DATA_DIR')
  }
  // A folder there may be of the time before a move to another server.
  const hasFolder = await stat(path.join(dataDir, 'clickhouse')).then(() => true, () => false)
  if (hasFolder && addresses.isClickHouseEmbedded !== false) return addresses
  throw new MillraceError('MILLRACE_BACKUP_NO_STACK', 'this stack uses an external ClickHouse server: back it up with that ' +
    'server\'s own tools, see docs/run/operations.md')
}

/** What root writes, the service could neither read nor remove. */
async function refuseRootForAnother (dataDir: string): Promise<void> {
  const { uid } = await stat(path.join(dataDir, 'credentials.json'))
  if (!isRoot() || uid === 0) return
  throw new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `the stack on ${dataDir} runs as the user ${uid}, which could not read a backup ` +
    `made by root: run this command as that user, with sudo --user=#${uid}`)
}

/** Creates the folder, readable only by its owner: it gets keys and personal data. @returns whether it was missing. */
async function makeEmptyFolder (folder: string): Promise<boolean> {
  const isNew = await makeFolder(path.resolve(folder), { mode: 0o700 }).catch((cause: NodeJS.ErrnoException) => {
    throw new MillraceError('MILLRACE_FOLDER_UNUSABLE', `the folder ${folder} cannot be created (${cause.code}): choose one that the user ` +
      `${process.getuid?.() ?? ''} may write to. A service of systemd may write only to the folders that its unit ` +
      'lists: add this one to ReadWritePaths (docs/run/install.md)', { cause })
  })
  if ((await readdir(folder)).length > 0) {
    throw new MillraceError('MILLRACE_FOLDER_NOT_EMPTY', `${folder} is not empty: choose another folder`)
  }
  return isNew
}

/** The data directory may be on the same disk, and must not run full. */
async function checkRoom (folder: string, written: Room): Promise<void> {
  const room = await readRoom(folder)
  const needed: Room = { bytes: written.bytes + SPARE.bytes, files: written.files + SPARE.files }
  if (room.bytes >= needed.bytes && room.files >= needed.files) return
  throw new MillraceError('MILLRACE_BACKUP_NO_ROOM', `on the disk of ${folder} ${describeRoom(room)} are free, and the backup may need ` +
    `${describeRoom(needed)}: remove older backups, or choose another disk`)
}

/** Bytes in the spools of all ingest processes on the data directory, also of those that have ended. */
async function readSpoolBytes (dataDir: string): Promise<number> {
  const files = await readdir(path.join(dataDir, 'spool'), { recursive: true, withFileTypes: true }).catch(() => [])
  let bytes = 0
  for (const { name, parentPath } of files) {
    // A segment is removed when it is drained.
    if (name.endsWith('.segment')) bytes += (await stat(path.join(parentPath, name)).catch(() => ({ size: 0 }))).size
  }
  return bytes
}
