import { type ClickHouse, queryRows } from './clickhouse/connect-clickhouse.ts'

const READ_COMPLETE_THROUGH = `
  SELECT toFloat64(toUnixTimestamp64Milli(max(complete_through))) AS through FROM watermark_reached GROUP BY id`

/**
 * Reads the watermark: the time of receipt up to which everything acknowledged is stored. Whatever is read from
 * `events` afterwards has every acknowledged event that was received before.
 *
 * @returns null while nothing is known.
 * @throws when ClickHouse is unavailable.
 */
export async function readCompleteThrough (clickhouse: ClickHouse): Promise<Date | null> {
  const [row] = await queryRows<{ through: number }>(clickhouse, READ_COMPLETE_THROUGH)
  return row === undefined ? null : new Date(row.through)
}
