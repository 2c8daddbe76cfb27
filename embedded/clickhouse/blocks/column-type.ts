/** Types of columns, such as `Array(Tuple(a UInt8, b LowCardinality(String)))`, as far as their bytes must be known. */
import { QueryError } from '../query-errors.ts'

export type ColumnType =
  | { kind: 'fixed', bytes: number }
  | { kind: 'string' }
  /** JSON that is written as text, after its version. */
  | { kind: 'json' }
  | { kind: 'nullable', of: ColumnType }
  | { kind: 'array', of: ColumnType }
  | { kind: 'tuple', of: ColumnType[] }
  | { kind: 'lowCardinality', of: ColumnType }

const FIXED: ReadonlyMap<string, number> = new Map(Object.entries({
  Bool: 1, Int8: 1, UInt8: 1, Enum8: 1, Nothing: 1,
  Int16: 2, UInt16: 2, Enum16: 2, Date: 2, BFloat16: 2,
  Int32: 4, UInt32: 4, Float32: 4, Date32: 4, DateTime: 4, Time: 4, IPv4: 4, Decimal32: 4,
  Int64: 8, UInt64: 8, Float64: 8, DateTime64: 8, Time64: 8, Decimal64: 8,
  Int128: 16, UInt128: 16, UUID: 16, IPv6: 16, Decimal128: 16,
  Int256: 32, UInt256: 32, Decimal256: 32
}))

/** Types that are other names of these. */
const SAME_AS: ReadonlyMap<string, string> = new Map(Object.entries({
  Point: 'Tuple(Float64, Float64)',
  Ring: 'Array(Point)',
  LineString: 'Array(Point)',
  Polygon: 'Array(Ring)',
  MultiLineString: 'Array(LineString)',
  MultiPolygon: 'Array(Polygon)'
}))

const known = new Map<string, ColumnType>()
const MAX_KNOWN = 1000

/** @throws {QueryError} 48 for a type whose bytes are not told apart here. */
export function readColumnType (text: string): ColumnType {
  const found = known.get(text)
  if (found !== undefined) return found
  const type = parse(text)
  if (known.size < MAX_KNOWN) known.set(text, type)
  return type
}

function parse (text: string): ColumnType {
  const open = text.indexOf('(')
  const name = open === -1 ? text : text.slice(0, open)
  const args = open === -1 ? [] : splitArguments(text.slice(open + 1, -1))
  const bytes = FIXED.get(name)
  if (bytes !== undefined) return { kind: 'fixed', bytes }
  const same = SAME_AS.get(name)
  if (same !== undefined) return parse(same)
  if (name.startsWith('Interval')) return { kind: 'fixed', bytes: 8 }
  if (name === 'String') return { kind: 'string' }
  if (name === 'JSON') return { kind: 'json' }
  if (name === 'FixedString') return { kind: 'fixed', bytes: Number(args[0]) }
  if (name === 'Decimal') return { kind: 'fixed', bytes: decimalBytes(Number(args[0])) }
  if (name === 'Nullable') return { kind: 'nullable', of: parse(args[0]!) }
  if (name === 'Array') return { kind: 'array', of: parse(args[0]!) }
  if (name === 'Tuple' && args.length > 0) return { kind: 'tuple', of: args.map(parseElement) }
  if (name === 'Nested') return { kind: 'array', of: { kind: 'tuple', of: args.map(parseElement) } }
  if (name === 'Map') return { kind: 'array', of: { kind: 'tuple', of: args.map(parse) } }
  if (name === 'LowCardinality') return { kind: 'lowCardinality', of: withoutNull(parse(args[0]!)) }
  if (name === 'SimpleAggregateFunction') return parse(args.at(-1)!)
  throw new QueryError(48, `Type ${text} is not supported in Native for this client (client_protocol_version): ` +
    'convert it, for example by toString or finalizeAggregation, or ask for another format')
}

/** A dictionary has a place for NULL, and no column of marks. */
function withoutNull (type: ColumnType): ColumnType {
  return type.kind === 'nullable' ? type.of : type
}

function decimalBytes (precision: number): number {
  if (precision <= 9) return 4
  if (precision <= 18) return 8
  return precision <= 38 ? 16 : 32
}

/** An element of a tuple may have a name before its type. */
function parseElement (text: string): ColumnType {
  const [, type] = /^(?:`(?:[^`\\]|\\.)*`|[A-Za-z_]\w*) +(.+)$/s.exec(text) ?? []
  return parse(type ?? text)
}

function splitArguments (text: string): string[] {
  const parts: string[] = []
  let depth = 0
  let start = 0
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!
    if (char === "'" || char === '`') i = findQuoteEnd(text, i)
    else if (char === '(') depth++
    else if (char === ')') depth--
    else if (char === ',' && depth === 0) {
      parts.push(text.slice(start, i).trim())
      start = i + 1
    }
  }
  parts.push(text.slice(start).trim())
  return parts.filter((part) => part !== '')
}

function findQuoteEnd (text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === text[at]) return i
  }
  return text.length
}
