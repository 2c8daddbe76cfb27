import path from 'node:path'
import { eraseLetters, recordErasure } from '../../api/persons/erase-persons.ts'
import { finishPersonDeletion, type PersonDeletion, selectDeletion } from '../../pipeline/persons/deletion/finish-person-deletion.ts'
import { chunksOf, type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readErasureFile } from '../../api/persons/erasure-file.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { MillraceError } from '../../engines/errors.ts'
import { type ErasureRow, parseErasures } from '../../schema/wire/erased-ids.ts'

/** Maximum time of one erasure, in milliseconds. */
const WAIT_MS = 600_000

/**
 * Erases from restored data what was erased after the backup: the file beside the backup has the records.
 *
 * @param folders  Where the file may be.
 * @returns the number of erasures that the backup did not have.
 */
export async function eraseAgain (
  stores: { sql: Sql, clickhouse: ClickHouse, nats: NatsConnection }, folders: readonly string[]
): Promise<number> {
  const { sql, nats } = stores
  const records = parseErasures((await Promise.all(folders.map(readErasureFile))).join('\n'))
  let erased = 0
  for (const record of records) {
    const known = await sql`
      SELECT 1 FROM erasures WHERE project_id = ${record.project_id} AND hashes = ${record.hashes}
        AND date_trunc('milliseconds', requested_at) = ${record.requested_at}
        AND filter IS NOT DISTINCT FROM ${(record.filter ?? null) && sql.json({ ...record.filter })}::jsonb`
    if (known.length > 0) continue
    const ids = await findIds(stores, record)
    const erasure = { ids, filter: record.filter, removed: record.removed_properties, again: record }
    const recorded = await recordErasure(sql, record.project_id, erasure)
    if (recorded === null) continue
    erased++
    await eraseLetters(nats, record.project_id, erasure, false)
    const [deletion] = await sql<PersonDeletion[]>`SELECT ${selectDeletion(sql)} FROM person_deletions WHERE id = ${recorded.deletion}`
    if (deletion !== undefined && !await finishPersonDeletion(deletion, { ...stores, waitMs: WAIT_MS })) {
      throw new MillraceError('MILLRACE_RESTORE_FAILED', 'the data of erased persons could not be erased again in time')
    }
  }
  return erased
}

/** The folder of scheduled backups, and the one in which this backup is. */
export function foldersOfErasures (folder: string, root: string): string[] {
  return [...new Set([path.dirname(folder), ...root === '' ? [] : [path.resolve(root)]])]
}

/** The distinct ids of a record that the restored stores have. */
async function findIds (
  { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse }, { project_id: project, salt, hashes }: ErasureRow
): Promise<string[]> {
  const known = await sql<{ id: string }[]>`
    SELECT distinct_id AS id FROM person_distinct_ids
    WHERE project_id = ${project} AND encode(sha256(convert_to(${`${salt}:${project}:`} || distinct_id, 'UTF8')), 'hex') = ANY (${hashes})`
  const sent: { id: string }[] = []
  for (const some of chunksOf(hashes)) {
    sent.push(...await queryRows<{ id: string }>(clickhouse, `
      SELECT DISTINCT distinct_id AS id FROM events WHERE project_id = {project: UInt32}
        AND lower(hex(SHA256(concat({prefix: String}, distinct_id)))) IN {hashes: Array(String)} SETTINGS final = 0`,
    { project, prefix: `${salt}:${project}:`, hashes: some }))
  }
  return [...new Set([...known, ...sent].map(({ id }) => id))]
}
