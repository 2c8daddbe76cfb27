import { EVENT_COLUMNS } from '../../schema/wire/event-row.ts'
import { quoteString } from '../../engines/sql/clickhouse-sql.ts'
import { type ClickHouse, LOCAL_DATABASE, queryRows, systemTableOfShards } from '../clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../engines/errors.ts'

/**
 * A property promoted by an operator is a column of `events` with a DEFAULT over `properties`: ClickHouse computes it
 * for every insert that does not name it, and while reading parts that were written before it. So it is right for
 * every row from the moment it exists, whichever version of Millrace inserts; filling old parts only makes it fast.
 *
 * The column itself is the one record of the promotion: its name begins with `p_`, its default names the property.
 * Columns of Millrace never begin so, and no analyst's query is likely to use such a name for something else.
 */
const COLUMN_PREFIX = 'p_'

interface PromotedTypeDefinition {
  /** Type of the column. */
  column: string
  /** The value of the property, by its name as a literal. Must never throw, or inserts would stop. */
  read: (property: string) => string
  /** The value of an absent property, in words. */
  absent: string
}

/** What a property may be promoted as. */
export const PROMOTED_TYPES = {
  String: {
    column: 'String',
    read: (property) => `JSONExtractString(properties, ${property})`,
    absent: 'empty'
  },
  Float64: {
    column: 'Nullable(Float64)',
    read: (property) => `JSONExtract(properties, ${property}, 'Nullable(Float64)')`,
    absent: 'NULL'
  },
  DateTime: {
    column: "Nullable(DateTime64(3, 'UTC'))",
    // Dates that begin with the year, and epoch seconds or milliseconds; anything else would be a guess ("5" is a day).
    read: (property) => `parseDateTime64BestEffortOrNull(extract(JSONExtractString(properties, ${property}), ` +
      "'^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]{9,10}|[0-9]{13})$'), 3, 'UTC')",
    absent: 'NULL'
  },
  Bool: {
    column: 'Nullable(Bool)',
    read: (property) => `JSONExtract(properties, ${property}, 'Nullable(Bool)')`,
    absent: 'NULL'
  }
} as const satisfies Record<string, PromotedTypeDefinition>

export type PromotedType = keyof typeof PROMOTED_TYPES

/** What to promote, checked. */
export interface Promotion {
  property: string
  type: PromotedType
  column: string
}

/** A property cannot be promoted or demoted so; the message says why. */
export class PromotionError extends MillraceError {
  constructor (message: string) {
    super('MILLRACE_PROMOTION_REFUSED', message)
    this.name = 'PromotionError'
  }
}

/**
 * Checks what is to be promoted, and names the column.
 *
 * @param spec.column  Absent: made from the name of the property.
 * @throws {PromotionError} for a property that already has a built-in column, and for impossible names.
 */
export function readPromotion (spec: { property: string, type: PromotedType, column?: string | undefined }): Promotion {
  const { property, type } = spec
  if (property === '' || Buffer.byteLength(property) > 200 || /[\p{Cc}\p{Cs}]/u.test(property)) {
    throw new PromotionError('the name of a property has 1 to 200 bytes and no control characters')
  }
  const own = EVENT_COLUMNS.find((column) => 'promotes' in column && column.promotes === property)
  if (own !== undefined) throw new PromotionError(`${property} already has a built-in column: ${own.name}`)
  const column = spec.column ?? nameColumn(property)
  if (!/^p_[A-Za-z0-9_]{1,62}$/.test(column) || !/[A-Za-z0-9]/.test(column.slice(2))) {
    throw new PromotionError(`${column} cannot be the column: give --column with p_ and 1 to 62 letters, digits or _`)
  }
  return { property, type, column }
}

/** Drops a leading `$`; characters that an identifier cannot have become `_`. A second column of a name is refused. */
function nameColumn (property: string): string {
  return COLUMN_PREFIX + property.replace(/^\$/, '').replaceAll(/[^A-Za-z0-9_]+/g, '_').slice(0, 62)
}

/** The definition of the column, as `ALTER TABLE ... ADD COLUMN` wants it; without its name. */
export function describeColumn ({ property, type }: Promotion): string {
  return `${PROMOTED_TYPES[type].column} DEFAULT ${describeExpression({ property, type })} ` +
    `COMMENT ${quoteString(commentOf({ property, type }))} CODEC(ZSTD(1))`
}

/** What the column stands for: the expression over `properties` that gives the same for every event. */
export function describeExpression ({ property, type }: Pick<Promotion, 'property' | 'type'>): string {
  return PROMOTED_TYPES[type].read(quoteString(property))
}

export function commentOf ({ property, type }: Pick<Promotion, 'property' | 'type'>): string {
  const { absent } = PROMOTED_TYPES[type]
  return `Property ${JSON.stringify(property)} as ${type}, ${absent} when absent; promoted by the operator`
}

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
  const columns = await queryRows<{ name: string, type: string, expression: string }>(clickhouse, `
    SELECT name, type, default_expression AS expression FROM system.columns
    WHERE database = ${LOCAL_DATABASE} AND table = 'events' AND default_kind = 'DEFAULT'
      AND startsWith(name, {prefix: String})
    ORDER BY name`, { prefix: COLUMN_PREFIX })
  const promotions: Promotion[] = []
  for (const { name, type, expression } of columns) {
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
  // Every part has project_id, so one query of the parts gives both numbers of the same moment.
  const [row] = await queryRows<{ all_rows: string, filled_rows: string, bytes: string }>(clickhouse, `
    SELECT sumIf(rows, column = 'project_id') AS all_rows, sumIf(rows, column != 'project_id') AS filled_rows,
      sumIf(column_bytes_on_disk, column != 'project_id') AS bytes
    FROM ${systemTableOfShards(options.cluster ?? '', 'parts_columns')}
    WHERE active AND database = ${LOCAL_DATABASE} AND table = 'events' AND column IN ('project_id', {column: String})`,
  { column })
  return { rows: Number(row?.all_rows), filledRows: Number(row?.filled_rows), bytes: Number(row?.bytes) }
}

const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', 0: '\0' }

/** The property that a default reads; ClickHouse shows the expression in a form of its own, with the literal quoted. */
function readProperty (expression: string): string | undefined {
  const literal = /\(properties, '((?:[^'\\]|\\.)*)'/s.exec(expression)?.[1]
  return literal?.replace(/\\(.)/gs, (_, char: string) => ESCAPES[char] ?? char)
}
