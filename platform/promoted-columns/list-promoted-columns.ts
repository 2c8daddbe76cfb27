import { type ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import { systemTable } from '../clickhouse/clickhouse-cluster.ts'
import { COLUMN_PREFIX, PROMOTED_TYPES, type PromotedType, type Promotion } from './promoted-column.ts'

/** A promoted property as it is stored now. */
export interface PromotedColumn extends Promotion {
  /** Rows of `events`, copies that will be merged away included. */
  rows: number
  /** Of these, the ones whose value is stored; of the others it is computed while reading, which is exact but slow. */
  filledRows: number
  /** On disk, all replicas together. */
  bytes: number
}

/** The promoted properties and how far their columns are filled, by name of the column. */
export async function listPromotedColumns (
  clickhouse: ClickHouse, options: { cluster?: string } = {}
): Promise<PromotedColumn[]> {
  const columns: PromotedColumn[] = []
  for (const promotion of await listPromotions(clickhouse)) {
    columns.push({ ...promotion, ...await readFill(clickhouse, promotion.column, options) })
  }
  return columns
}

/** The promoted properties alone, by name of the column; every login may read them. */
export async function listPromotions (clickhouse: ClickHouse): Promise<Promotion[]> {
  const result = await clickhouse.query({
    query: `
      SELECT name, type, default_expression AS expression FROM system.columns
      WHERE database = currentDatabase() AND table = 'events' AND default_kind = 'DEFAULT'
        AND startsWith(name, {prefix: String})
      ORDER BY name`,
    query_params: { prefix: COLUMN_PREFIX },
    format: 'JSONEachRow'
  })
  const promotions: Promotion[] = []
  for (const { name, type, expression } of await result.json<{ name: string, type: string, expression: string }>()) {
    const property = readProperty(expression)
    const known = (Object.keys(PROMOTED_TYPES) as PromotedType[]).find((key) => PROMOTED_TYPES[key].column === type)
    if (property === undefined || known === undefined) continue
    promotions.push({ property, type: known, column: name })
  }
  return promotions
}

/** How much of a column is stored; all of it when there is nothing. */
export async function readFill (
  clickhouse: ClickHouse, column: string, options: { cluster?: string } = {}
): Promise<{ rows: number, filledRows: number, bytes: number }> {
  // Every part has project_id, so one look at the parts gives both numbers of the same moment.
  const result = await clickhouse.query({
    query: `
      SELECT sumIf(rows, column = 'project_id') AS all_rows, sumIf(rows, column != 'project_id') AS filled_rows,
        sumIf(column_bytes_on_disk, column != 'project_id') AS bytes
      FROM ${systemTable(options.cluster ?? '', 'parts_columns')}
      WHERE active AND database = currentDatabase() AND table = 'events' AND column IN ('project_id', {column: String})`,
    query_params: { column },
    format: 'JSONEachRow'
  })
  const [row] = await result.json<{ all_rows: string, filled_rows: string, bytes: string }>()
  return { rows: Number(row?.all_rows), filledRows: Number(row?.filled_rows), bytes: Number(row?.bytes) }
}

const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', 0: '\0' }

/** The property that a default reads; ClickHouse shows the expression in a form of its own, with the literal quoted. */
function readProperty (expression: string): string | undefined {
  const literal = /\(properties, '((?:[^'\\]|\\.)*)'/s.exec(expression)?.[1]
  return literal?.replace(/\\(.)/gs, (_, char: string) => ESCAPES[char] ?? char)
}
