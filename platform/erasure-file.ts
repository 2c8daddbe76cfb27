/** The file beside backups that has the records of all erasures, so that restoring an older backup erases again. */
import { appendFile, readFile } from 'node:fs/promises'
import path from 'node:path'
import { errorCode } from '../engines/errors.ts'
import type { ErasureRow } from '../schema/wire/erased-ids.ts'
import type { Sql } from './postgres/connect-postgres.ts'

const FILE = 'erasures.jsonl'

/** The records in a folder of backups, each once. A line that was cut by a crash is left out: it is written again. */
export async function readErasureFile (root: string): Promise<ErasureRow[]> {
  const text = await readFile(path.join(root, FILE), 'utf8').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return ''
    throw error
  })
  return [...new Set(text.split('\n'))].flatMap((line) => {
    try {
      const { requested_at: at, ...row }: ErasureRow = JSON.parse(line)
      return [{ ...row, requested_at: new Date(at) }]
    } catch {
      return []
    }
  })
}

/** Adds the records that the file does not have. Nothing is ever removed from it. */
export async function appendErasures (sql: Sql, root: string): Promise<void> {
  const rows = await sql<ErasureRow[]>`SELECT project_id, salt, hashes, requested_at FROM erasures ORDER BY id`
  const known = new Set((await readErasureFile(root)).map((row) => JSON.stringify(row)))
  const lines = rows.map((row) => JSON.stringify(row)).filter((line) => !known.has(line))
  if (lines.length > 0) await appendFile(path.join(root, FILE), `\n${lines.join('\n')}\n`, { mode: 0o600, flush: true })
}
