/** Columns and values of a result of ClickHouse, and how they are written. */
export interface Column { name: string, type: string }

export type Value = string | number | boolean | null | Value[] | { [name: string]: Value }

/** True for types whose values are numbers, which stand to the right. */
export function isNumeric (type: string): boolean {
  return /^(?:Nullable\(|LowCardinality\()*(?:U?Int\d+|Float\d+|BFloat16|Decimal\d*)\b/.test(type)
}

export function isTime (type: string): boolean {
  return /^(?:Nullable\(|LowCardinality\()*Date/.test(type)
}

/**
 * A value as text, with every digit. Numbers inside of arrays and maps come as text, too, and are shown without its
 * quotes when the type says that they are numbers.
 */
export function formatValue (value: Value, type: string): string {
  if (value === null) return 'NULL'
  if (typeof value === 'object') return writeNested(value, !/String|UUID|Date|Enum|IP/.test(type))
  return String(value)
}

function writeNested (value: Value, isBare: boolean): string {
  if (Array.isArray(value)) return `[${value.map((each) => writeNested(each, isBare)).join(', ')}]`
  if (value !== null && typeof value === 'object') {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${writeNested(each, isBare)}`).join(', ')}}`
  }
  return isBare && typeof value === 'string' ? value : JSON.stringify(value)
}
