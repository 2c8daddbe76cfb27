import { refreshEventsWithPerson } from '../../schema/migrate/refresh-events-with-person.ts'
import { onCluster, quoteName, quoteText } from '../clickhouse/clickhouse-cluster.ts'
import { type ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import { fillColumn, stopFilling, waitForDrop, type FillOptions } from './fill-column.ts'
import { listPromotedColumns, listPromotions, readFill, type PromotedColumn } from './list-promoted-columns.ts'
import { commentOf, describeColumn, PromotionError, type Promotion } from './promoted-column.ts'

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
  const column = quoteName(promotion.column)
  await clickhouse.command({
    query: `ALTER TABLE events ${onCluster(cluster)} ADD COLUMN IF NOT EXISTS ${column} ${describeColumn(promotion)}`
  })
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
    query: `ALTER TABLE events ${onCluster(cluster)} COMMENT COLUMN ${quoteName(promotion.column)} ${quoteText(commentOf(promotion))}`
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
  await clickhouse.command({
    query: `ALTER TABLE events ${onCluster(cluster)} DROP COLUMN IF EXISTS ${quoteName(promoted.column)}`,
    // The column is gone at once; taking it out of every part goes on in the background.
    clickhouse_settings: { alter_sync: '0' }
  })
  await refreshEventsWithPerson(clickhouse, { topology })
  return promoted
}
