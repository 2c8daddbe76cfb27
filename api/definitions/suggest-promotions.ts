import { EVENT_COLUMNS } from '../../schema/wire/event-row.ts'
import { type ClickHouse, LOCAL_DATABASE, queryRows, systemTableOfShards } from '../../platform/clickhouse/connect-clickhouse.ts'
import { findNames } from '../../engines/sql/find-names.ts'
import { readQueryLog } from '../../platform/query-log/read-query-log.ts'
import { listPromotions, type PromotedType, PromotionError } from '../../platform/query-log/promoted-column.ts'

/** A property of events that analysts take out of the JSON text, and what a column of its own would save. */
export interface Suggestion {
  property: string
  /** The column that holds it already; absent: it would have to be promoted. */
  column: string | undefined
  /** As most values were sent. */
  type: PromotedType
  /** SELECTs that read it from the text. */
  queries: number
  /** Time of these SELECTs; of one that reads several properties, an equal part. */
  seconds: number
  /** Of that time, what a column would have saved: an estimate. */
  savedSeconds: number
  /** Disk that the column would take: an estimate; 0 when it is there already. */
  bytes: number
}

interface Read {
  queries: number
  durationMs: number
}

/** Events that are sampled for the average length of a property's values. */
const SAMPLE_ROWS = 20_000

/**
 * Names the properties whose promotion would have saved analysts most time, by the query log.
 *
 * The estimate: these queries are bound by reading and parsing `properties`, so their time goes with the bytes a row
 * they read. It becomes smaller as the bytes of the value and of the columns that every query reads (project, event,
 * time) stand to those and the text. It is an estimate of the log's time, not a promise for the next query.
 *
 * @param options.days  How much of the log, today included.
 * @returns most savings first.
 * @throws {PromotionError} when there is no log.
 */
export async function suggestPromotions (
  clickhouse: ClickHouse, options: { days: number, cluster?: string }
): Promise<Suggestion[]> {
  const { days, cluster = '' } = options
  // Logs are written with a delay; a login that may not ask for it sooner waits these seconds.
  await clickhouse.command({ query: 'SYSTEM FLUSH LOGS' }).catch(() => {})
  const reads = await collectReads(clickhouse, { days, cluster })
  const estimate = await createEstimate(clickhouse, cluster)
  const suggestions: Suggestion[] = []
  for (const [property, read] of reads) suggestions.push(await estimate(property, read))
  return suggestions.sort((a, b) => b.savedSeconds - a.savedSeconds)
}

/**
 * What the promotion of one property would have saved, by the same estimate; also for one that no query reads. The
 * log may be some seconds old.
 *
 * @throws {PromotionError} when there is no log.
 */
export async function suggestPromotion (
  clickhouse: ClickHouse, property: string, options: { days: number, cluster?: string }
): Promise<Suggestion> {
  const { days, cluster = '' } = options
  const reads = await collectReads(clickhouse, { days, cluster })
  const estimate = await createEstimate(clickhouse, cluster)
  return await estimate(property, reads.get(property) ?? { queries: 0, durationMs: 0 })
}

/** What to do about a suggestion: the command that promotes it, or the column to use instead. */
export function describeRemedy ({ property, type, column }: Suggestion): string {
  const word = /^[\w./$-]+$/.test(property) && !property.includes('$') ? property : `'${property.replaceAll("'", "'\\''")}'`
  return column === undefined ? `npx millrace properties promote ${word} --type ${type}` : `use the column ${column}`
}

/** Reads the sizes of the tables once, and estimates by them. */
async function createEstimate (
  clickhouse: ClickHouse, cluster: string
): Promise<(property: string, read: Read) => Promise<Suggestion>> {
  const columns = new Map([
    ...EVENT_COLUMNS.flatMap((column) => 'promotes' in column ? [[column.promotes, column.name] as const] : []),
    ...(await listPromotions(clickhouse)).map(({ property, column }) => [property, column] as const)
  ])
  const sizes = await readSizes(clickhouse, cluster)
  return async (property, { queries, durationMs }) => {
    const column = columns.get(property)
    const { type, valueBytes } = await describeProperty(clickhouse, property)
    const share = 1 - (sizes.keyBytes + valueBytes) / (sizes.keyBytes + Math.max(sizes.textBytes, valueBytes))
    return {
      property,
      column,
      type,
      queries,
      seconds: durationMs / 1000,
      savedSeconds: durationMs / 1000 * share,
      bytes: column === undefined ? Math.round(valueBytes * sizes.rows * sizes.compression) : 0
    }
  }
}

async function collectReads (
  clickhouse: ClickHouse, options: { days: number, cluster: string }
): Promise<Map<string, Read>> {
  const log = await readQueryLog(clickhouse, options)
  if (log === undefined) throw new PromotionError('ClickHouse keeps no query log, or not for this login')
  const reads = new Map<string, Read>()
  for await (const { query, count, durationMs } of log) {
    const properties = findNames(query).properties.filter(({ kinds }) => kinds.includes('event'))
    for (const { property } of properties) {
      const read = reads.get(property) ?? { queries: 0, durationMs: 0 }
      read.queries += count
      read.durationMs += durationMs / properties.length
      reads.set(property, read)
    }
  }
  return reads
}

/** Uncompressed bytes of a row, and what compression leaves of the text. */
interface Sizes {
  rows: number
  textBytes: number
  keyBytes: number
  compression: number
}

async function readSizes (clickhouse: ClickHouse, cluster: string): Promise<Sizes> {
  const [row] = await queryRows<Record<'all_rows' | 'text' | 'keys' | 'disk', string>>(clickhouse, `
    SELECT sumIf(rows, column = 'properties') AS all_rows,
      sumIf(column_data_uncompressed_bytes, column = 'properties') AS text,
      sumIf(column_data_uncompressed_bytes, column != 'properties') AS keys,
      sumIf(column_bytes_on_disk, column = 'properties') AS disk
    FROM ${systemTableOfShards(cluster, 'parts_columns')}
    WHERE active AND database = ${LOCAL_DATABASE} AND table = 'events'
      AND column IN ('properties', 'project_id', 'event', 'timestamp')`)
  const rows = Math.max(Number(row?.all_rows), 1)
  const text = Math.max(Number(row?.text), 1)
  return { rows, textBytes: text / rows, keyBytes: Number(row?.keys) / rows, compression: Number(row?.disk) / text }
}

const TYPES: Record<string, PromotedType> = { Numeric: 'Float64', Boolean: 'Bool', DateTime: 'DateTime' }

async function describeProperty (
  clickhouse: ClickHouse, property: string
): Promise<{ type: PromotedType, valueBytes: number }> {
  const [row] = await queryRows<{ type: string, bytes: number }>(clickhouse, `
    SELECT
      (SELECT argMax(type, n) FROM (SELECT toString(type) AS type, sum(count) AS n FROM event_property_counts
       WHERE kind = 'event' AND property = {property: String} AND type != 'none' GROUP BY type)) AS type,
      (SELECT avg(1 + length(JSONExtractString(properties, {property: String})))
       FROM (SELECT properties FROM events LIMIT ${SAMPLE_ROWS})) AS bytes`, { property })
  const type = TYPES[row?.type ?? ''] ?? 'String'
  // Of an empty table there is no average.
  return { type, valueBytes: type === 'String' ? Number(row?.bytes) || 1 : 9 }
}
