import type { Logger } from 'pino'
import { readSchemaVersion } from '../../schema/migrate/schema-versions.ts'
import { compareVersions, readVersion } from '../../schema/version.ts'
import { MillraceError } from '../errors.ts'
import { withTimeout } from '../intervals.ts'
import type { Sql } from './connect-postgres.ts'

/** A start waits no longer than this for the answer, in milliseconds: every tier starts without Postgres. */
const TIMEOUT_MS = 2000

/**
 * Refuses to start on a database that a later version migrated, when that version does not work with this one. The
 * version before the later one may start: it runs beside its successors while they replace it.
 *
 * A database that does not answer, or does not say which version migrated it, refuses nothing.
 *
 * @throws {MillraceError} `MILLRACE_DATABASE_NEWER` naming both versions.
 */
export async function refuseNewerDatabase (sql: Sql, logger: Logger): Promise<void> {
  const own = readVersion()
  const query = async (text: string): Promise<{ rows: Record<string, unknown>[] }> => ({ rows: await sql.unsafe(text) })
  const found = await withTimeout(TIMEOUT_MS, readSchemaVersion(query)).catch((err: unknown) => {
    logger.info({ err }, 'could not read which version migrated the database; going on')
    return undefined
  })
  if (found === undefined) return
  const { version, oldestCompatible } = found
  if (compareVersions(own, oldestCompatible) < 0) {
    throw new MillraceError('MILLRACE_DATABASE_NEWER', `the database was migrated by Millrace ${version}, which works with ` +
      `${oldestCompatible} and newer, and this is ${own}: run ${version}, or restore a backup of before the upgrade`)
  }
  if (compareVersions(own, version) < 0) {
    logger.warn({ version: own, migratedBy: version }, 'a newer version migrated the database: replace this process by one of it')
  }
}
