import path from 'node:path'
import type { ServiceUrls } from '../../embedded/supervisor/start-parts.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../engines/errors.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { recordBackup } from './backup-records.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { describeVersion } from '../../schema/version.ts'
import { migrateAll } from '../../schema/migrate/migrate-all.ts'
import { readMigrations } from '../../schema/migrate/read-migrations.ts'
import type { CliContext } from '../cli-context.ts'
import { startProgressBar } from '../terminal-output.ts'
import { type BackupManifest, listLost } from './backup-folder.ts'
import { verifyBooks } from './books.ts'
import { restoreTables } from './clickhouse-backup.ts'
import { eraseAgain, foldersOfErasures } from './erase-again.ts'
import { DEAD_LETTER_FILES } from './create-backup.ts'
import { restoreDeadLetters } from './dead-letters-backup.ts'
import { restorePostgres } from './postgres-backup.ts'

/**
 * Loads a backup into empty services, and brings it to this version:
 *
 * 1. make the tables that the backup was taken from: its migrations, and no later ones
 * 2. fill them, and compare the counts; publish the dead letters
 * 3. apply the migrations that came since, as an upgrade does; compare the events with the books of the backup
 * 4. erase what was erased since the backup
 *
 * @param options.clickhouseDir  Data folder of ClickHouse, on this machine.
 * @throws {MillraceError} when anything differs from the manifest.
 */
export async function loadBackup (
  context: CliContext, urls: ServiceUrls,
  { folder, manifest, clickhouseDir }: { folder: string, manifest: BackupManifest, clickhouseDir: string }
) {
  const only = { postgres: manifest.postgres.migrations, clickhouse: manifest.clickhouse.migrations }
  await migrateAll({ ...urls, only })
  const sql = connectPostgres({ url: urls.databaseUrl, max: 2 })
  const clickhouse = connectClickHouse({ url: urls.clickhouseUrl, requestTimeoutMs: 600_000 })
  const logger = createLogger({ component: 'restore', level: 'silent' })
  const nats = await connectNats({ url: urls.natsUrl, name: 'restore', logger })
  try {
    const partBytes = sumByPart(manifest)
    const bar = startProgressBar(context, 'restoring', manifest.files.reduce((sum, { bytes }) => sum + bytes, 0))
    const leftOut = [
      ...await restorePostgres(sql, manifest.postgres, { folder, onBytes: bar.add }),
      ...await restoreTables(clickhouse, manifest.clickhouse, {
        folder, dataDir: clickhouseDir, onPart: (part) => { bar.add(partBytes.get(part) ?? 0) }
      })
    ].map(({ what }) => what)
    await ensureStreams(nats, loadStreamLimits(context.env))
    let letters = 0
    for (const name of DEAD_LETTER_FILES) letters += await restoreDeadLetters(nats, folder, name)
    if (letters !== manifest.deadLetters) {
      throw new MillraceError('MILLRACE_RESTORE_FAILED', `restored ${letters} dead letters, expected ${manifest.deadLetters}`)
    }
    bar.end()
    const migrations = await migrateAll(urls)
    await verifyBooks(clickhouse, manifest.books)
    const root = loadSettings(context.env, ['MILLRACE_BACKUP_FOLDER']).MILLRACE_BACKUP_FOLDER
    const erased = await eraseAgain({ sql, clickhouse, nats }, foldersOfErasures(folder, root))
    await recordLoss(sql, { folder, manifest, leftOut })
    return {
      /** Those that were applied to data of an earlier version, prefixed with their database. */
      migrations,
      /** What of users is in the backup and could not be restored, in words for people. */
      leftOut,
      /** Erasures since the backup, which were carried out again. */
      erased
    }
  } finally {
    await sql.end({ timeout: 1 })
    await clickhouse.close()
    await nats.close()
  }
}

/**
 * Refuses a backup whose tables this version cannot make: one of a newer version, or with other migrations, as of a
 * development state before 0.1.0.
 *
 * @throws {MillraceError} `MILLRACE_RESTORE_OTHER_VERSION` naming both versions.
 */
export async function refuseUnknownSchema (manifest: BackupManifest): Promise<void> {
  const { postgres, clickhouse } = manifest
  for (const [database, about] of Object.entries({ postgres, clickhouse })) {
    const known = await readMigrations(path.join(import.meta.dirname, '..', '..', 'schema', database))
    const checksums = new Map(known.map(({ name, checksum }) => [name, checksum]))
    const unknown = about.migrations.find((name) => !checksums.has(name))
    if (unknown !== undefined) {
      throw new MillraceError('MILLRACE_RESTORE_OTHER_VERSION', `the backup is of Millrace ${describeVersion(manifest)}, and this is ` +
        `${describeVersion()}, which does not know migration ${unknown} of ${database}: restore it with the version that made it, or a newer one`)
    }
    const changed = Object.entries(about.checksums).find(([name, checksum]) => checksums.get(name) !== checksum)
    if (changed !== undefined) {
      throw new MillraceError('MILLRACE_RESTORE_OTHER_VERSION', `migration ${changed[0]} of ${database} in the backup, of Millrace ` +
        `${describeVersion(manifest)}, differs from the one in this version, ${describeVersion()}: restore it with the Millrace version that made it`)
    }
  }
}

/** Makes `status` of the restored installation say what the backup lacked, or could not be made. */
async function recordLoss (
  sql: Sql, { folder, manifest, leftOut }: { folder: string, manifest: BackupManifest, leftOut: string[] }
): Promise<void> {
  const lost = [...listLost(manifest), ...leftOut]
  if (lost.length === 0) return
  await recordBackup(sql, {
    startedAt: new Date(manifest.startedAt), endedAt: new Date(manifest.snapshotAt), folder, error: '',
    warning: `the restore of this backup left out ${lost.length}: ${lost.join('; ')}`,
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0), sharedBytes: manifest.base?.sharedBytes ?? 0
  })
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

export function loadStreamLimits (env: NodeJS.ProcessEnv): Parameters<typeof ensureStreams>[1] {
  const settings = loadSettings(env, ['MILLRACE_STREAM_REPLICAS', 'MILLRACE_STREAM_MAX_BYTES', 'MILLRACE_DEAD_LETTER_MAX_BYTES'])
  return {
    replicas: settings.MILLRACE_STREAM_REPLICAS,
    eventsMaxBytes: settings.MILLRACE_STREAM_MAX_BYTES,
    deadLetterMaxBytes: settings.MILLRACE_DEAD_LETTER_MAX_BYTES
  }
}
