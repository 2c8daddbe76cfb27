import type { Logger } from 'pino'
import { describeNewerDatabase, readSchemaVersion } from '../../schema/migrate/schema-versions.ts'
import { readVersion } from '../../schema/version.ts'
import { MillraceError } from '../../engines/errors.ts'
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
  const query = async (text: string): Promise<{ rows: Record<string, unknown>[] }> => ({ rows: await sql.unsafe(text) })
  const found = await withTimeout(TIMEOUT_MS, readSchemaVersion(query)).catch((err: unknown) => {
    logger.info({ err }, 'could not read which version migrated the database; continuing')
    return undefined
  })
  const newer = describeNewerDatabase(found)
  if (newer === undefined) return
  if (!newer.mayRun) throw new MillraceError('MILLRACE_DATABASE_NEWER', newer.why)
  logger.warn({ version: readVersion(), migratedBy: found?.version }, 'a newer version migrated the database; replace this process with that version')
}
