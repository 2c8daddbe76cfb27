import { setTimeout as delay } from 'node:timers/promises'
import { onCluster, quoteName, systemTable } from '../clickhouse/clickhouse-cluster.ts'
import { type ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import { listPromotions, readFill } from './list-promoted-columns.ts'
import { PromotionError } from './promoted-column.ts'

export interface FillOptions {
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster?: string
  /** Told now and then how many rows are stored, of how many; the ones that are being written count. */
  onProgress?: (filledRows: number, rows: number) => void
  /** Pause between two looks, in milliseconds. Default 500. */
  pollMs?: number
}

/** ClickHouse tries work that fails again and again; after so many looks at what moves nothing, we stop waiting. */
const MAX_FAILED_LOOKS = 40

/**
 * Writes a promoted column into the parts that were written before it, and waits until it is done.
 *
 * ClickHouse does the work in the background (`MATERIALIZE COLUMN`): it reads `properties`, writes the one column and
 * links the others. It goes on when the caller dies and when ClickHouse restarts; calling again watches the same work.
 * Inserts that had begun before the column was added leave a part without it: the work is ordered again for these.
 *
 * @throws {PromotionError} when the work fails again and again, or the column is dropped meanwhile.
 */
export async function fillColumn (clickhouse: ClickHouse, column: string, options: FillOptions = {}): Promise<void> {
  const { cluster = '', onProgress = () => {}, pollMs = 500 } = options
  let failedLooks = 0
  for (let before = -1; ;) {
    // First the work, then the fill: what is done by the second look was not needed.
    const work = await readWork(clickhouse, commandPattern('MATERIALIZE', column), cluster)
    const { rows, filledRows } = await readFill(clickhouse, column, { cluster })
    onProgress(Math.min(filledRows + work.writtenRows, rows), rows)
    if (filledRows >= rows) return
    if (!work.isOrdered) await orderWork(clickhouse, column, cluster)
    failedLooks = work.failure !== '' && filledRows === before ? failedLooks + 1 : 0
    if (failedLooks >= MAX_FAILED_LOOKS) {
      throw new PromotionError(`${column} gives right answers, but filling old parts fails: ${work.failure}`)
    }
    before = filledRows
    await delay(pollMs)
  }
}

async function orderWork (clickhouse: ClickHouse, column: string, cluster: string): Promise<void> {
  const columns = await listPromotions(clickhouse)
  if (!columns.some((known) => known.column === column)) throw new PromotionError(`${column} was dropped meanwhile`)
  await clickhouse.command({
    query: `ALTER TABLE events ${onCluster(cluster)} MATERIALIZE COLUMN ${quoteName(column)}`,
    clickhouse_settings: { mutations_sync: '0' }
  })
}

/** Stops filling a column; what is written stays. ClickHouse drops no column that it is just filling. */
export async function stopFilling (clickhouse: ClickHouse, column: string, cluster: string): Promise<void> {
  await clickhouse.command({
    query: `KILL MUTATION ${onCluster(cluster)} WHERE database = currentDatabase() AND table = 'events'
      AND match(command, {pattern: String})`,
    query_params: { pattern: commandPattern('MATERIALIZE', column) }
  })
}

/** Waits until no part holds a column of that name which was dropped before. */
export async function waitForDrop (clickhouse: ClickHouse, column: string, cluster: string): Promise<void> {
  while ((await readWork(clickhouse, commandPattern('DROP', column), cluster)).isOrdered) await delay(500)
}

/** What ClickHouse is doing about the column. */
async function readWork (
  clickhouse: ClickHouse, pattern: string, cluster: string
): Promise<{ isOrdered: boolean, failure: string, writtenRows: number }> {
  const result = await clickhouse.query({
    query: `
      SELECT countIf(NOT is_done) > 0 AS isOrdered, maxIf(latest_fail_reason, NOT is_done) AS failure,
        (SELECT sum(rows_read) FROM ${systemTable(cluster, 'merges')}
         WHERE is_mutation AND database = currentDatabase() AND table = 'events') AS writtenRows
      FROM ${systemTable(cluster, 'mutations')}
      WHERE database = currentDatabase() AND table = 'events' AND match(command, {pattern: String})`,
    query_params: { pattern },
    format: 'JSONEachRow'
  })
  const [row] = await result.json<{ isOrdered: number, failure: string, writtenRows: string }>()
  return { isOrdered: row?.isOrdered === 1, failure: row?.failure ?? '', writtenRows: Number(row?.writtenRows) }
}

/** Commands of `system.mutations` about a column, such as `(DROP COLUMN IF EXISTS p_plan)`. */
function commandPattern (verb: 'MATERIALIZE' | 'DROP', column: string): string {
  return `${verb} COLUMN (IF EXISTS )?.?${column}.?\\)*$`
}
