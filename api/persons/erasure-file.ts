/** The file beside backups that has the records of all erasures, so that restoring an older backup erases again. */
import { appendFile, readFile } from 'node:fs/promises'
import path from 'node:path'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type ErasureRow, formatErasures } from '../../schema/wire/erased-ids.ts'

const FILE = 'erasures.jsonl'

/** Empty: there is no such file. */
export async function readErasureFile (root: string): Promise<string> {
  return await readFile(path.join(root, FILE), 'utf8').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return ''
    throw error
  })
}

/** Adds the records that the file does not have. Nothing is ever removed from it. */
export async function appendErasures (sql: Sql, root: string): Promise<void> {
  const rows = await sql<ErasureRow[]>`
    SELECT project_id, salt, hashes, requested_at, filter, removed_properties FROM erasures ORDER BY id`
  const lines = formatErasures(rows, await readErasureFile(root))
  if (lines === '') return
  await appendFile(path.join(root, FILE), lines, { mode: 0o600, flush: true }).catch((cause: unknown) => {
    // The backup explains a full disk.
    if (['ENOSPC', 'EDQUOT'].includes(errorCode(cause) ?? '')) throw cause
    throw new MillraceError('MILLRACE_FOLDER_UNUSABLE', `${path.join(root, FILE)}, which makes a restore erase again what was erased, cannot be written ` +
      `(${errorCode(cause)}): make the backup in a folder below one that the user ${process.getuid?.() ?? ''} may write to`, { cause })
  })
}
