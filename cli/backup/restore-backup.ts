import { copyFile, readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { loadCredentials } from '../../embedded/data-dir/stack-access.ts'
import { endRestore, explainFailedStart, markUnrestored, UNFINISHED_RESTORE } from '../../embedded/data-dir/check-data-dir.ts'
import { lockDataDir } from '../../embedded/data-dir/data-dir-lock.ts'
import { createProgress } from '../../embedded/supervisor/progress.ts'
import { endRecordedProcesses, openProcessRecord } from '../../embedded/supervisor/processes/recorded-processes.ts'
import { createStackParts } from '../../embedded/supervisor/processes/supervise.ts'
import { ensureDatabase } from '../../embedded/postgres/ensure-database.ts'
import { loadStackSettings, type StackSettings } from '../../embedded/supervisor/stack-settings.ts'
import { startServices } from '../../embedded/supervisor/start-parts.ts'
import { verifyBackupFiles } from './backup-files.ts'
import { type BackupManifest, readManifest, refuseNestedRestore } from './backup-folder.ts'
import { loadBackup, refuseUnknownSchema } from './load-backup.ts'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { flushFolder } from '../../platform/durable-folder.ts'
import type { CliContext } from '../cli-context.ts'
import { startProgressBar } from '../terminal-output.ts'

/**
 * Restores a backup into an empty data directory: verifies every checksum, starts the services on the directory without
 * the tiers, loads the data, compares the counts, migrates a backup of an earlier version, and stops the services.
 * `npm start` then runs on the directory.
 *
 * Until it is complete the directory is marked as unfinished: whether this process fails or is killed, `npm start`
 * refuses the directory, and the next restore starts over.
 *
 * @throws {MillraceError} when anything differs from the manifest; the data directory then has nothing but the mark.
 */
export async function restoreBackup (
  context: CliContext, { dataDir, folder }: { dataDir: string, folder: string }
) {
  // Refuse before anything is written, and gigabytes are read.
  const settings = loadStackSettings({ ...context.env, MILLRACE_DATA_DIR: dataDir })
  const { natsUrl, clickhouseUrl, databaseUrl } = settings.external
  if (natsUrl !== undefined || clickhouseUrl !== undefined || databaseUrl !== undefined) {
    throw new MillraceError('MILLRACE_RESTORE_FAILED',
      'NATS_URL, CLICKHOUSE_URL and DATABASE_URL must not be set: this restores the embedded services')
  }
  await refuseNestedRestore({ dataDir, folder })
  await refuseUnlessEmpty(dataDir)
  const lock = await lockDataDir(dataDir)
  try {
    await refuseUnlessEmpty(dataDir)
    await markUnrestored(dataDir, { folder })
    const restored = await readAndFill(context, { settings, folder }).catch(async (error: unknown) => {
      const text = error instanceof Error ? error.message : String(error)
      await markUnrestored(dataDir, { folder, error: text }).catch(() => {})
      throw error
    })
    // Copied files may still be in the page cache only.
    await flushTree(dataDir)
    await endRestore(dataDir)
    return restored
  } finally {
    await lock.release()
  }
}

async function readAndFill (
  context: CliContext, { settings, folder }: { settings: StackSettings, folder: string }
) {
  const { dataDir } = settings
  const manifest = await readManifest(folder)
  await refuseUnknownSchema(manifest)
  const verifying = startProgressBar(context, 'verifying', manifest.files.reduce((sum, { bytes }) => sum + bytes, 0))
  await verifyBackupFiles(folder, manifest.files, verifying.add)
  verifying.end()
  // Left by an interrupted restore.
  await endRecordedProcesses(dataDir)
  await clear(dataDir)
  try {
    return { manifest, ...await startAndLoad(context, { settings, folder, manifest }) }
  } catch (error) {
    const explained = await explainFailedStart(dataDir, error)
    // A partial restore must not be taken for a whole one.
    await clear(dataDir)
    throw explained
  }
}

async function startAndLoad (
  context: CliContext,
  { settings, folder, manifest }: { settings: StackSettings, folder: string, manifest: BackupManifest }
): ReturnType<typeof loadBackup> {
  const { dataDir } = settings
  const record = openProcessRecord(dataDir)
  const progress = createProgress({ write: (text) => context.stderr.write(text) }, () => performance.now())
  const { signal } = new AbortController()
  const parts = createStackParts({ progress, signal, onSpawn: (child) => record.add(child) })
  try {
    await copyFile(path.join(folder, 'credentials.json'), path.join(dataDir, 'credentials.json'))
    const credentials = await loadCredentials(dataDir, settings.chosen)
    // Any free ports: no client connects during a restore.
    const ports = { origin: 0, api: 0, pipeline: 0, clickhouse: 0, nats: 0, postgres: 0 }
    const urls = await startServices({ settings: { ...settings, ports }, credentials, parts, progress })
    await ensureDatabase(urls.databaseUrl)
    return await loadBackup(context, urls, { folder, manifest, clickhouseDir: path.join(dataDir, 'clickhouse') })
  } finally {
    await parts.stop()
    await record.written()
  }
}

/** Removes everything but our lock and the mark of an unfinished restore. */
async function clear (dataDir: string): Promise<void> {
  for (const name of await listData(dataDir)) {
    // Processes of a restore that was killed may write for a moment longer.
    await rm(path.join(dataDir, name), { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Entries of a data directory, without locks, the mark of a restore, and the folder that mkfs creates. */
async function listData (dataDir: string): Promise<string[]> {
  const names = await readdir(dataDir).catch(() => [])
  return names.filter((name) => !/^lock(\..*)?$/.test(name) && name !== UNFINISHED_RESTORE && name !== 'lost+found')
}

/** Refuses a data directory with data, unless an interrupted restore left it. */
async function refuseUnlessEmpty (dataDir: string): Promise<void> {
  const isUnfinished = await stat(path.join(dataDir, UNFINISHED_RESTORE)).then(() => true, () => false)
  if (!isUnfinished && (await listData(dataDir)).length > 0) {
    throw new MillraceError('MILLRACE_FOLDER_NOT_EMPTY', `the data directory ${dataDir} is not empty: stop Millrace and ` +
      'move it away, or set MILLRACE_DATA_DIR to a new folder')
  }
}

/** Flushes a folder with everything in it, at any depth. What vanishes meanwhile is passed over. */
async function flushTree (folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const child = path.join(folder, entry.name)
    if (entry.isDirectory()) await flushTree(child)
    else if (entry.isFile()) await flushIfThere(child)
  }
  await flushIfThere(folder)
}

async function flushIfThere (name: string): Promise<void> {
  try {
    // A file is flushed as a folder is: opened, and synced.
    await flushFolder(name)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
}
