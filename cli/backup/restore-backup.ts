import { copyFile, readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { loadCredentials } from '../../deploy/local/data-dir/stack-access.ts'
import { beginRestore, endRestore, explainFailedStart, UNFINISHED_RESTORE } from '../../deploy/local/data-dir/check-data-dir.ts'
import { lockDataDir } from '../../deploy/local/data-dir/data-dir-lock.ts'
import { createProgress } from '../../deploy/local/progress.ts'
import { endRecordedProcesses, openProcessRecord } from '../../deploy/local/processes/recorded-processes.ts'
import { createStackParts } from '../../deploy/local/processes/supervise.ts'
import { loadStackSettings } from '../../deploy/local/stack-settings.ts'
import { startServices, type ServiceUrls } from '../../deploy/local/start-parts.ts'
import { type BackupManifest, readManifest, verifyBackupFiles } from './backup-folder.ts'
import { restoreTables } from './clickhouse-backup.ts'
import { restoreDeadLetters } from './dead-letters-backup.ts'
import { restorePostgres } from './postgres-backup.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { MillraceError } from '../../platform/errors.ts'
import { flushTree } from '../../platform/durable-folder.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { createLogger } from '../../platform/logger.ts'
import { migrateAll } from '../../schema/migrate/migrate-all.ts'
import { readMigrations } from '../../schema/migrate/read-migrations.ts'
import type { CliContext } from '../cli-context.ts'
import { DEAD_LETTER_FILES } from './create-backup.ts'
import { startProgressBar } from '../terminal-output.ts'

/**
 * Restores a backup into an empty data directory: verifies every checksum, starts the services on the directory without
 * the tiers, loads the data, compares the counts, and stops the services. `npm start` then runs on the directory.
 *
 * Until it is complete the directory is marked as unfinished: if this process is killed, `npm start` refuses the
 * directory, and the next restore starts over.
 *
 * @throws {MillraceError} when anything differs from the manifest; the data directory is then empty.
 */
export async function restoreBackup (
  context: CliContext, { dataDir, folder }: { dataDir: string, folder: string }
): Promise<BackupManifest> {
  const manifest = await readManifest(folder)
  // Refuse before gigabytes are read.
  await refuseUnlessEmpty(dataDir)
  await refuseOtherVersion(manifest)
  const verifying = startProgressBar(context, 'verifying', manifest.files.reduce((sum, { bytes }) => sum + bytes, 0))
  await verifyBackupFiles(folder, manifest.files, verifying.add)
  verifying.end()

  const lock = await lockDataDir(dataDir)
  try {
    await makeEmpty(dataDir)
    await fill(context, { dataDir, folder, manifest })
    return manifest
  } finally {
    await lock.release()
  }
}

interface Filling {
  dataDir: string
  folder: string
  manifest: BackupManifest
}

/**
 * Fills an empty data directory; on failure leaves it empty, so that a partial restore is not taken for a whole one.
 */
async function fill (context: CliContext, filling: Filling): Promise<void> {
  const { dataDir, folder } = filling
  try {
    await beginRestore(dataDir, folder)
    await startAndLoad(context, filling)
    // Copied files may still be in the page cache only.
    await flushTree(dataDir)
    await endRestore(dataDir)
  } catch (error) {
    const explained = await explainFailedStart(dataDir, error)
    await clear(dataDir)
    throw explained
  }
}

async function startAndLoad (context: CliContext, { dataDir, folder, manifest }: Filling): Promise<void> {
  const record = openProcessRecord(dataDir)
  const progress = createProgress({ write: (text) => context.stderr.write(text) }, () => performance.now())
  const { signal } = new AbortController()
  const parts = createStackParts({ progress, signal, onSpawn: (child) => record.add(child) })
  try {
    await copyFile(path.join(folder, 'credentials.json'), path.join(dataDir, 'credentials.json'))
    const settings = loadStackSettings({ ...context.env, MILLRACE_DATA_DIR: dataDir })
    const { natsUrl, clickhouseUrl, databaseUrl } = settings.external
    if (natsUrl !== undefined || clickhouseUrl !== undefined || databaseUrl !== undefined) {
      throw new MillraceError('MILLRACE_RESTORE_FAILED',
        'NATS_URL, CLICKHOUSE_URL and DATABASE_URL must not be set: this restores the embedded services')
    }
    const credentials = await loadCredentials(dataDir, settings.chosen)
    // Any free ports: no client connects during a restore.
    const ports = { origin: 0, api: 0, pipeline: 0, clickhouse: 0, nats: 0, postgres: 0 }
    const urls = await startServices({ settings: { ...settings, ports }, credentials, parts, progress })
    await load(context, urls, { folder, manifest })
  } finally {
    await parts.stop()
    await record.written()
  }
}

async function load (
  context: CliContext, urls: ServiceUrls, { folder, manifest }: { folder: string, manifest: BackupManifest }
): Promise<void> {
  await migrateAll(urls)
  const sql = connectPostgres({ url: urls.databaseUrl, max: 2, pipeline: false })
  const clickhouse = connectClickHouse({ url: urls.clickhouseUrl, requestTimeoutMs: 600_000 })
  const logger = createLogger({ component: 'restore', level: 'silent' })
  const nats = await connectNats({ url: urls.natsUrl, name: 'restore', logger })
  try {
    const partBytes = sumByPart(manifest)
    const bar = startProgressBar(context, 'restoring', manifest.files.reduce((sum, { bytes }) => sum + bytes, 0))
    await restorePostgres(sql, folder, manifest.postgres, bar.add)
    await restoreTables(clickhouse, folder, manifest.clickhouse, async (part) => bar.add(partBytes.get(part) ?? 0))
    await ensureStreams(nats, loadStreamLimits(context.env))
    let letters = 0
    for (const name of DEAD_LETTER_FILES) letters += await restoreDeadLetters(nats, folder, name)
    if (letters !== manifest.deadLetters) {
      throw new MillraceError('MILLRACE_RESTORE_FAILED', `${letters} dead letters instead of ${manifest.deadLetters}`)
    }
    bar.end()
  } finally {
    await sql.end({ timeout: 1 })
    await clickhouse.close()
    await nats.close()
  }
}

/** Bytes of each part, by `clickhouse/<table>/<part>`. */
function sumByPart ({ files }: BackupManifest): Map<string, number> {
  const sums = new Map<string, number>()
  for (const file of files) {
    const part = file.path.split(path.sep).slice(0, 3).join(path.sep)
    sums.set(part, (sums.get(part) ?? 0) + file.bytes)
  }
  return sums
}

/** Removes everything but our lock; the mark of an unfinished restore last. */
async function clear (dataDir: string): Promise<void> {
  for (const name of await listData(dataDir)) {
    // Processes of a restore that was killed may write for a moment longer.
    await rm(path.join(dataDir, name), { recursive: true, force: true, maxRetries: 20 })
  }
  await endRestore(dataDir)
}

/** Ends the processes and removes the data of an interrupted restore; refuses any other data. Needs the lock. */
async function makeEmpty (dataDir: string): Promise<void> {
  await refuseUnlessEmpty(dataDir)
  await endRecordedProcesses(dataDir)
  await clear(dataDir)
}

/** Entries of a data directory, without locks, the mark of a restore, and the folder that mkfs creates. */
async function listData (dataDir: string): Promise<string[]> {
  const names = await readdir(dataDir).catch(() => [])
  return names.filter((name) => !/^lock(\..*)?$/.test(name) && name !== UNFINISHED_RESTORE && name !== 'lost+found')
}

/** Refuses a backup of another schema: its files fit only the tables that they came from. */
async function refuseOtherVersion ({ version, postgres, clickhouse }: BackupManifest): Promise<void> {
  const schemas = { postgres: postgres.migrations, clickhouse: clickhouse.migrations }
  for (const [database, wanted] of Object.entries(schemas)) {
    const known = await readMigrations(path.join(import.meta.dirname, '..', '..', 'schema', database))
    if (known.map(({ name }) => name).join() === wanted.join()) continue
    throw new MillraceError('MILLRACE_RESTORE_OTHER_VERSION', `the backup has another schema of ${database} than this ` +
      `version: restore it with Millrace ${version}, then start the newer version on the data directory`)
  }
}

function loadStreamLimits (env: NodeJS.ProcessEnv): Parameters<typeof ensureStreams>[1] {
  const settings = loadSettings(env, ['MILLRACE_STREAM_REPLICAS', 'MILLRACE_STREAM_MAX_BYTES', 'MILLRACE_DEAD_LETTER_MAX_BYTES'])
  return {
    replicas: settings.MILLRACE_STREAM_REPLICAS,
    eventsMaxBytes: settings.MILLRACE_STREAM_MAX_BYTES,
    deadLetterMaxBytes: settings.MILLRACE_DEAD_LETTER_MAX_BYTES
  }
}

/** Refuses a data directory with data, unless an interrupted restore left it. */
async function refuseUnlessEmpty (dataDir: string): Promise<void> {
  const isUnfinished = await stat(path.join(dataDir, UNFINISHED_RESTORE)).then(() => true, () => false)
  if (!isUnfinished && (await listData(dataDir)).length > 0) {
    throw new MillraceError('MILLRACE_FOLDER_NOT_EMPTY', `the data directory ${dataDir} is not empty: stop Millrace and ` +
      'move it away, or set MILLRACE_DATA_DIR to a new folder')
  }
}
