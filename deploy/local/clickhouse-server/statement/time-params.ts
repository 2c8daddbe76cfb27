/** Values of query parameters that are times with a zone, such as `2026-01-31T12:00:00.000Z`. */
import type { SqlToken } from '../../../../schema/clickhouse-sql.ts'

const ZONED = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)$/
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
  tokens.forEach((token, i) => {
    const [, name, colon, ...type] = tokens.slice(i, i + 6)
    if (token.text !== '{' || name?.kind !== 'word' || colon?.text !== ':') return
    const key = sql.slice(name.start, name.end)
    const value = params.get(key)
    const words = type.map(({ text }) => text).join('')
    if (value === undefined) return
    if (/^(NULLABLE\()?DATETIME(64)?\b/.test(words)) changed.set(key, toSeconds(value))
    else if (/^ARRAY\(DATETIME(64)?\b/.test(words)) changed.set(key, value.replaceAll(QUOTED, (_, text: string) => `'${toSeconds(text)}'`))
  })
  return changed
}

/** Digits of the fraction stay as they are: a time may be finer than JavaScript's. */
function toSeconds (value: string): string {
  const [, day, time, fraction = '', zone] = ZONED.exec(value) ?? []
  if (day === undefined || zone === undefined) return value
  const milliseconds = Date.parse(`${day}T${time}${zone.replace(/^([+-]\d\d)(\d\d)$/, '$1:$2')}`)
  // Before 1970 seconds count backwards and fractions do not.
  if (Number.isNaN(milliseconds) || milliseconds < 0) return value
  return `${milliseconds / 1000}${fraction}`
}
