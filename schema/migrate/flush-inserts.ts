import { type ClickHouseClient } from '@clickhouse/client'
import { type Migration } from './read-migrations.ts'
import { renderClickHouseSql, type ClickHouseTopology } from './render-clickhouse-sql.ts'

/**
 * Settings with which a table answers an insert only when its rows are on the disk.
 *
 * - `fsync_after_insert`, `fsync_part_directory`: files of the new part, then its name.
 * - `min_*_to_fsync_after_merge`: 1 is "always". A merged or mutated part takes the place of flushed ones, which are
 *   removed minutes later, whether or not the kernel has written the new one by then.
 * - `min_compressed_bytes_to_fsync_after_fetch`: the same for a part that a replica copied from another one.
 */
export const FLUSH_SETTINGS: Readonly<Record<string, number>> = {
  fsync_after_insert: 1,
  fsync_part_directory: 1,
  min_rows_to_fsync_after_merge: 1,
  min_compressed_bytes_to_fsync_after_merge: 1,
  min_compressed_bytes_to_fsync_after_fetch: 1
}

const CREATE_TABLE = /^CREATE TABLE IF NOT EXISTS (\w+)/m

/**
 * Makes every table of the migrations flush what is inserted, before the insert is answered: JetStream and the outbox
 * of persons forget what ClickHouse confirmed.
 *
 * Looked at after each run of the migrations, so that a later table and one that was restored from an older backup get
 * it too. A table that names `fsync_after_insert` itself is left as it is: somebody chose, such as an operator whose
 * replicas have power supplies of their own.
 *
 * @returns the tables that were changed.
 */
export async function flushInserts (
  client: ClickHouseClient, { migrations, topology }: { migrations: readonly Migration[], topology: ClickHouseTopology }
): Promise<string[]> {
  const names = ['schema_migrations', ...migrations.flatMap(({ sql }) => CREATE_TABLE.exec(sql)?.[1] ?? [])]
  const result = await client.query({
    query: `SELECT name FROM system.tables
      WHERE database = currentDatabase() AND name IN {names: Array(String)} AND engine LIKE '%MergeTree'
        AND position(engine_full, 'fsync_after_insert') = 0
      ORDER BY name`,
    query_params: { names },
    format: 'JSONEachRow'
  })
  const tables = (await result.json<{ name: string }>()).map(({ name }) => name)
  const settings = Object.entries(FLUSH_SETTINGS).map(([name, value]) => `${name} = ${value}`).join(', ')
  for (const table of tables) {
    await client.command({
      query: renderClickHouseSql(`ALTER TABLE ${table} {{on_cluster}} MODIFY SETTING ${settings}`, topology)
    })
  }
  return tables
}
