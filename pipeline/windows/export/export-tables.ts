/** What of each table goes into a window, as SQL. */
import { quoteString } from 'chdb-server/sql-lexer'
import { conditionSql } from '../../../engines/questions/question-sql.ts'
import { readConditions } from '../../../engines/operators/property-conditions.ts'
import { type ClickHouse, LOCAL_DATABASE, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { TimeWindow } from '../window-task.ts'

export type ExportedTable = 'events' | 'persons' | 'merges'

/** Which events are exported; the others are counted as left out. */
export interface ExportFilter {
  /** Names; null: all. */
  events: string[] | null
  /** Conditions on properties as the API takes them. */
  where: unknown[]
}

/** Name and type in ClickHouse. */
export type ExportedColumn = readonly [name: string, type: string]

interface TableFacts {
  source: string
  /** The time by which a row belongs to a window. */
  time: string
  /** Columns that only Millrace reads. */
  internal: readonly string[]
  /** Columns with the persons of a row: an erasure finds it by them. */
  persons: readonly string[]
  /** Hash by which rows are divided among the files of a window. */
  hash: string
}

const TABLES = {
  events: {
    source: 'events', time: 'received_at', internal: ['property_types', 'insert_token'], persons: ['person_id'],
    hash: 'cityHash64(distinct_id)'
  },
  persons: { source: 'persons', time: 'copied_at', internal: ['names'], persons: ['person_id'], hash: 'cityHash64(person_id)' },
  merges: {
    source: 'person_overrides', time: 'copied_at', internal: [], persons: ['old_person_id', 'person_id'], hash: 'cityHash64(old_person_id)'
  }
} satisfies Record<ExportedTable, TableFacts>

export const factsOf = (table: ExportedTable): TableFacts => TABLES[table]

/**
 * Columns of the files, also as SQL: those that were exported before, with their types and in their order, then those
 * that the table gained. A column that the table lost stays, with its default value.
 */
export async function readExportColumns (
  clickhouse: ClickHouse, table: ExportedTable, known: readonly ExportedColumn[]
): Promise<{ list: ExportedColumn[], select: string }> {
  const { source, internal } = factsOf(table)
  const found = await queryRows<{ name: string, type: string }>(clickhouse, `
    SELECT name, type FROM system.columns
    WHERE database = ${LOCAL_DATABASE} AND table = {source: String} AND default_kind NOT IN ('ALIAS', 'EPHEMERAL')
    ORDER BY position`, { source })
  const types = new Map(found.map(({ name, type }) => [name, type]))
  const names = new Set(known.map(([name]) => name))
  const gained = found.filter(({ name }) => !names.has(name) && !internal.includes(name))
  const list = [...known, ...gained.map(({ name, type }) => [name, type] as const)]
  return { list, select: list.map((column) => selectColumn(column, types.get(column[0]))).join(', ') }
}

/** The value of a column in a file: types that readers of Parquet do not know alike become text or milliseconds. */
function selectColumn ([name, type]: ExportedColumn, current: string | undefined): string {
  const column = `\`${name.replaceAll(/[\\`]/g, '\\$&')}\``
  const first = quoteString(type)
  // One that was made anew with another type keeps the first: what does not fit becomes the default, but in lists.
  const isList = /^(Array|Map|Tuple|Nested)\(/.test(type)
  const kept = isList ? `CAST(${column}, ${first})` : `accurateCastOrDefault(${column}, ${first})`
  const changed = current === undefined ? `CAST(defaultValueOfTypeName(${first}), ${first})` : kept
  const value = current === type ? column : changed
  if (/^(LowCardinality\()?(UUID|IPv[46]|Enum)/.test(type)) return `toString(${value}) AS ${column}`
  if (/^DateTime(\(|$)/.test(type)) return `toDateTime64(${value}, 3, 'UTC') AS ${column}`
  return `${value} AS ${column}`
}

export function windowSql (table: ExportedTable, projectId: number, { from, to }: TimeWindow): string {
  const at = (time: Date): string => `fromUnixTimestamp64Milli(${time.getTime()}, 'UTC')`
  const { time } = factsOf(table)
  return `project_id = ${projectId} AND ${time} >= ${at(from)} AND ${time} < ${at(to)}`
}

/**
 * Rows of a window that belong in one of several files. The hash is in the sorting key of events, so each file is read
 * once: divided by time, all of the window is read for each file.
 */
export function partSql (table: ExportedTable, index: number, of: number): string {
  const { hash } = factsOf(table)
  const [from, to] = [index, index + 1].map((at) => 2n ** 64n * BigInt(at) / BigInt(of))
  return of === 1 ? '1' : `${hash} BETWEEN ${from} AND ${(to ?? 0n) - 1n}`
}

/** Only events are filtered. */
export function filterSql (table: ExportedTable, filter: ExportFilter | null): string {
  if (filter === null || table !== 'events') return '1'
  const { events, where } = filter
  return [
    ...events === null ? [] : [`event IN (${events.map(quoteString).join(', ')})`],
    ...readConditions('filter__where', where).map((condition) => `(${conditionSql(condition)})`),
    '1'
  ].join(' AND ')
}
