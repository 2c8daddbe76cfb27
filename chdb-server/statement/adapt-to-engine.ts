/** What clients write and servers take, in the form that the engine takes: times with a zone. */
import { findParams } from './read-statement.ts'
import type { SqlToken } from './sql-lexer.ts'

/** A time with a zone, such as `2026-01-31T12:00:00.000Z`. */
const ZONED = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)$/
/** DateTime or DateTime64 alone or in an array, of a type written in capitals. */
const TIME_TYPE = /^(ARRAY\()?(?:NULLABLE\(|LOWCARDINALITY\()*(DATETIME(64)?)\b/
/** The same as an element of an array. */
const QUOTED = /'([^'\\]*)'/g

/**
 * The parameters of a statement with every time with a zone written as a number of seconds since 1970, which means the
 * same in every zone. The engine reads parameters without best effort and stops at the `Z`, which every client of
 * JavaScript writes; it reads such times in literals and comparisons by itself.
 *
 * Only values of type DateTime and DateTime64, and arrays of these, are touched.
 */
export function normalizeTimes (
  sql: string, tokens: readonly SqlToken[], params: ReadonlyMap<string, string>
): ReadonlyMap<string, string> {
  const changed = new Map(params)
  // A name may stand in many places, and its value may be long.
  const seen = new Set<string>()
  for (const { name, type } of findParams(sql, tokens)) {
    const value = params.get(name)
    const [, list, inner, fine] = TIME_TYPE.exec(type.join('')) ?? []
    const kind = [name, list, fine].join()
    if (value === undefined || inner === undefined || seen.has(kind)) continue
    seen.add(kind)
    const write = (text: string): string => toSeconds(text, { fractions: fine !== undefined })
    changed.set(name, list === undefined ? write(value) : value.replaceAll(QUOTED, (_, text: string) => `'${write(text)}'`))
  }
  return changed
}

/**
 * Indexes of a part are compared with a time of the query without best effort, unlike its rows, and so are the
 * statistics that merges leave and a join asks for: with these settings neither is looked at, only the primary key,
 * which takes times with a zone.
 */
export const WITHOUT_INDEXES: ReadonlyArray<readonly [name: string, value: string]> = [['use_skip_indexes', '0'], ['use_statistics', '0']]

const ZONED_TIME_ERROR = /^(?:Query failed: )?Code: 53\b.*Cannot convert string '\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)' to type DateTime/

/**
 * Whether the engine refused a time with a zone in a comparison with a column that has an index of its least and
 * greatest values, as the columns of a partition key have, or statistics. It does so before it reads anything.
 */
export function failsOnZonedTime (error: unknown): boolean {
  return error instanceof Error && ZONED_TIME_ERROR.test(error.message)
}

/** Digits of the fraction stay as they are, as a time may be finer than JavaScript's; DateTime takes none of them. */
function toSeconds (value: string, { fractions }: { fractions: boolean }): string {
  const [, day, time, fraction = '', zone] = ZONED.exec(value) ?? []
  if (day === undefined || zone === undefined) return value
  const milliseconds = Date.parse(`${day}T${time}${zone.replace(/^([+-]\d\d)(\d\d)$/, '$1:$2')}`)
  // Before 1970 seconds count backwards and fractions do not.
  if (Number.isNaN(milliseconds) || milliseconds < 0) return value
  return `${milliseconds / 1000}${fractions ? fraction : ''}`
}
