import { setTimeout as delay } from 'node:timers/promises'
import { databaseOfAllShards } from '../../schema/migrate/clickhouse-topology.ts'
import { refreshEventsWithPerson } from '../../schema/migrate/refresh-events-with-person.ts'
import { quoteIdentifier, quoteString } from '../../engines/sql/clickhouse-sql.ts'
import { type ClickHouse, onCluster, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import {
  commentOf, describeColumn, listPromotedColumns, listPromotions, PromotionError, readFill, type PromotedColumn,
  type Promotion
} from '../../platform/query-log/promoted-column.ts'

interface FillOptions {
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster?: string
  /** Called after each poll with the rows that are filled, those being written included, and with all rows. */
  onProgress?: (filledRows: number, rows: number) => void
  /** Pause between polls, in milliseconds. Default 500. */
  pollMs?: number
}

/** ClickHouse retries failing work without limit; after so many polls without progress, we stop waiting. */
const MAX_FAILED_POLLS = 40

/**
 * Gives a property of events a column of its own, in `events` and `events_with_person`, for new and old events.
 *
 * 1. add the column: from here on it answers rightly for every event
 * 2. show it in the view
 * 3. write it into old parts, with progress
 *
 * Every step finds out by itself whether it is done, so a promotion that died anywhere is finished by calling again,
 * and calling twice changes nothing. Inserts go on; they name their columns, and this one is none of them.
 *
 * @throws {PromotionError} when the column holds another property, or the property another type.
 */
export async function promoteProperty (
  clickhouse: ClickHouse, promotion: Promotion, options: FillOptions = {}
): Promise<PromotedColumn> {
  const { cluster = '' } = options
  refuseConflict(promotion, await listPromotions(clickhouse))
  await waitForDrop(clickhouse, promotion.column, cluster)
  const column = quoteIdentifier(promotion.column)
  for (const table of await listEventTables(clickhouse, cluster)) {
    await clickhouse.command({
      query: `ALTER TABLE ${table} ${onCluster(cluster)} ADD COLUMN IF NOT EXISTS ${column} ${describeColumn(promotion)}`
    })
  }
  // Somebody else may have been faster, with something else.
  refuseConflict(promotion, await listPromotions(clickhouse))
  await restoreComment(clickhouse, promotion, cluster)
  await refreshEventsWithPerson(clickhouse, { topology: cluster === '' ? {} : { cluster } })
  await fillColumn(clickhouse, promotion.column, options)
  return { ...promotion, ...await readFill(clickhouse, promotion.column, { cluster }) }
}

function refuseConflict ({ property, type, column }: Promotion, known: readonly Promotion[]): void {
  const same = known.find((other) => other.property === property)
  if (same !== undefined && (same.type !== type || same.column !== column)) {
    throw new PromotionError(`${property} is promoted as ${same.type} in column ${same.column}; demote it first`)
  }
  const other = known.find((promoted) => promoted.column === column)
  if (other !== undefined && other.property !== property) {
    throw new PromotionError(`column ${column} holds the property ${other.property}; give another one with --column`)
  }
}

/** A backup of an earlier version restored the column without its comment. */
async function restoreComment (clickhouse: ClickHouse, promotion: Promotion, cluster: string): Promise<void> {
  await clickhouse.command({
    query: `ALTER TABLE events ${onCluster(cluster)} COMMENT COLUMN ${quoteIdentifier(promotion.column)} ${quoteString(commentOf(promotion))}`
  })
}

/**
 * Takes the column of a promoted property away; the property stays in `properties`. Queries that name the column fail
 * from now on, all others go on.
 *
 * @returns whether there was one.
 */
export async function demoteProperty (
  clickhouse: ClickHouse, property: string, options: { cluster?: string } = {}
): Promise<PromotedColumn | undefined> {
  const { cluster = '' } = options
  const promoted = (await listPromotedColumns(clickhouse, { cluster })).find((column) => column.property === property)
  if (promoted === undefined) return undefined
  const topology = cluster === '' ? {} : { cluster }
  // The view first: it must never name a column that is gone.
  await refreshEventsWithPerson(clickhouse, { topology, without: [promoted.column] })
  await stopFilling(clickhouse, promoted.column, cluster)
  // That of all shards first, for the same reason.
  for (const table of (await listEventTables(clickhouse, cluster)).reverse()) {
    await clickhouse.command({
      query: `ALTER TABLE ${table} ${onCluster(cluster)} DROP COLUMN IF EXISTS ${quoteIdentifier(promoted.column)}`,
      // The column is gone at once; taking it out of every part goes on in the background.
      clickhouse_settings: { alter_sync: '0' }
    })
  }
  await refreshEventsWithPerson(clickhouse, { topology })
  return promoted
}

/**
 * Writes a promoted column into the parts that were written before it, and waits until it is done.
 *
 * ClickHouse does the work in the background (`MATERIALIZE COLUMN`): it reads `properties`, writes the one column and
 * links the others. It goes on when the caller dies and when ClickHouse restarts; calling again watches the same work.
 * Inserts that had begun before the column was added leave a part without it: the work is ordered again for these.
 *
 * @throws {PromotionError} when the work fails again and again, or the column is dropped meanwhile.
 */
async function fillColumn (clickhouse: ClickHouse, column: string, options: FillOptions = {}): Promise<void> {
  const { cluster = '', onProgress = () => {}, pollMs = 500 } = options
  let failedPolls = 0
  for (let before = -1; ;) {
    // First the work, then the fill: work that ends in between was not needed any more.
    const work = await readWork(clickhouse, commandPattern('MATERIALIZE', column), cluster)
    const { rows, filledRows } = await readFill(clickhouse, column, { cluster })
    onProgress(Math.min(filledRows + work.writtenRows, rows), rows)
    if (filledRows >= rows) return
    if (!work.isOrdered) await orderWork(clickhouse, column, cluster)
    failedPolls = work.failure !== '' && filledRows === before ? failedPolls + 1 : 0
    if (failedPolls >= MAX_FAILED_POLLS) {
      throw new PromotionError(`${column} is usable, but filling old parts failed: ${work.failure}`)
    }
    before = filledRows
    await delay(pollMs)
  }
}

async function orderWork (clickhouse: ClickHouse, column: string, cluster: string): Promise<void> {
  const columns = await listPromotions(clickhouse)
  if (!columns.some((known) => known.column === column)) throw new PromotionError(`${column} was dropped meanwhile`)
  await clickhouse.command({
    query: `ALTER TABLE events ${onCluster(cluster)} MATERIALIZE COLUMN ${quoteIdentifier(column)}`,
    clickhouse_settings: { mutations_sync: '0' }
  })
}

/** Stops filling a column; what is written stays. ClickHouse drops no column that it is just filling. */
async function stopFilling (clickhouse: ClickHouse, column: string, cluster: string): Promise<void> {
  const pattern = commandPattern('MATERIALIZE', column)
  // On a cluster this takes rights that no login but an administrator has.
  if (!(await readWork(clickhouse, pattern, cluster)).isOrdered) return
  await clickhouse.command({
    // Other nodes of a cluster have another current database.
    query: `KILL MUTATION ${onCluster(cluster)} WHERE database = ${quoteString(await readDatabase(clickhouse))} AND table = 'events'
      AND match(command, ${quoteString(pattern)})`
  })
}

/** `events`, and on a cluster the table of all shards, which has columns of its own. */
async function listEventTables (clickhouse: ClickHouse, cluster: string): Promise<string[]> {
  if (cluster === '') return ['events']
  return ['events', `${quoteIdentifier(databaseOfAllShards(await readDatabase(clickhouse)))}.events`]
}

async function readDatabase (clickhouse: ClickHouse): Promise<string> {
  const [row] = await queryRows<{ name: string }>(clickhouse, 'SELECT currentDatabase() AS name')
  return row?.name ?? ''
}

/** Waits until no part holds a column of that name which was dropped before. */
async function waitForDrop (clickhouse: ClickHouse, column: string, cluster: string): Promise<void> {
  while ((await readWork(clickhouse, commandPattern('DROP', column), cluster)).isOrdered) await delay(500)
}

/** What ClickHouse is doing about the column. */
async function readWork (
  clickhouse: ClickHouse, pattern: string, cluster: string
): Promise<{ isOrdered: boolean, failure: string, writtenRows: number }> {
  const [row] = await queryRows<{ isOrdered: number, failure: string, writtenRows: string }>(clickhouse, `
    SELECT countIf(NOT is_done) > 0 AS isOrdered, maxIf(latest_fail_reason, NOT is_done) AS failure,
      (SELECT sum(rows_read) FROM ${systemTable(cluster, 'merges')}
       WHERE is_mutation AND database = currentDatabase() AND table = 'events') AS writtenRows
    FROM ${systemTable(cluster, 'mutations')}
    WHERE database = currentDatabase() AND table = 'events' AND match(command, {pattern: String})`, { pattern })
  return { isOrdered: row?.isOrdered === 1, failure: row?.failure ?? '', writtenRows: Number(row?.writtenRows) }
}

/** Commands of `system.mutations` about a column, such as `(DROP COLUMN IF EXISTS p_plan)`. */
function commandPattern (verb: 'MATERIALIZE' | 'DROP', column: string): string {
  return `${verb} COLUMN (IF EXISTS )?.?${column}.?\\)*$`
}
