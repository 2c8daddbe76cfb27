/** Conditions of cohorts on dates and versions. The same values meet them as in flags, but for values like `-7d`. */
import { quoteString } from 'chdb-server/sql-lexer'
import { invalidField } from '../errors.ts'
import { compileExpected, listOffsets } from '../operators/match-date.ts'
import { parseVersion, readCaret, readTilde, readWildcard, type Version } from '../operators/match-semver.ts'
import { findOperator } from '../operators/property-operators.ts'
import { propertyText } from '../operators/property-test.ts'
import { propertyText as propertySql, textAsNumber } from './question-sql.ts'

const DATES: ReadonlyMap<string, string> = new Map([['is_date_exact', '='], ['is_date_before', '<'], ['is_date_after', '>']])
const VERSIONS: ReadonlyMap<string, string> = new Map([
  ['semver_eq', '='], ['semver_neq', '!='], ['semver_gt', '>'], ['semver_gte', '>='], ['semver_lt', '<'], ['semver_lte', '<=']
])
const RANGES = new Map([['semver_tilde', readTilde], ['semver_caret', readCaret], ['semver_wildcard', readWildcard]])

export interface DateOrVersion { key: string, operator: string, wanted: string }

/** The condition of a filter; null: it is on neither. @throws {HttpError} 400 naming the value. */
export function readDateOrVersion (
  path: string, key: string, { operator, value }: Readonly<Record<string, unknown>>
): DateOrVersion | null {
  if (typeof operator !== 'string' || ![DATES, VERSIONS, RANGES].some((known) => known.has(operator))) return null
  findOperator(operator)?.(value, { timezone: 'UTC', invalid: (message) => { throw invalidField(`${path}__value`, message) } })
  return { key, operator, wanted: propertyText(value) }
}

/** Whether a row with `properties` meets a condition. @param moment.timezone  That of dates without an offset. */
export function dateOrVersionSql (
  { key, operator, wanted }: DateOrVersion, { now, timezone }: { now: number, timezone: string }
): string {
  const compare = DATES.get(operator)
  const test = compare === undefined
    ? `arrayExists(version -> ${versionTest(operator, wanted)}, [${VERSION_SQL}])`
    : `ifNull(${instantSql(`JSONType(properties, ${quoteString(key)})`, timezone)} ${compare} ${compileExpected(wanted, timezone)?.(now)}, false)`
  return `arrayExists(text -> ${test}, [ifNull(${propertySql(key, false)}, '')])`
}

function versionTest (operator: string, wanted: string): string {
  const [from, below] = RANGES.get(operator)?.(wanted) ?? [parseVersion(wanted)]
  const bound = (version: Version | null | undefined): string => `[${(version ?? []).map((part) => part === Infinity ? 'inf' : `toFloat64(${part})`).join(', ')}]`
  return `notEmpty(version) AND version ${VERSIONS.get(operator) ?? '>='} ${bound(from)}${below === undefined ? '' : ` AND version < ${bound(below)}`}`
}

const BLANKS = String.raw`[\s\x0b\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]*`
const VERSION = String.raw`^${BLANKS}[vV]?(\d+)(?:\.(\d*)(?:\.(\d*)(?:\.[^-+]*)?)?)?(?:[-+]|${BLANKS}$)`
/** The three numbers of the version in `text`, read as loosely as `parseVersion` does; empty for any other text. */
const VERSION_SQL = `arrayMap(part -> toFloat64OrZero(part), extractGroups(text, ${quoteString(VERSION)}))`

const UNIX_TIME = String.raw`^-?\d+(?:\.\d+)?$`
const DATE = String.raw`^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[Tt ](\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?\s*([Zz]|[-+]\d{2}(?::?\d{2})?)?)?$`
const RFC_2822 = String.raw`^(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC|[+-]\d{4})$`

/** The instant of the date in `text` in Unix milliseconds; NULL for any other value. */
function instantSql (type: string, timezone: string): string {
  const isNumber = `${type} IN ('Int64', 'UInt64', 'Double') OR (${type} = 'String' AND match(text, ${quoteString(UNIX_TIME)}))`
  const unix = `arrayMap(number -> number * if(abs(number) >= 1e11, 1, 1000), [${textAsNumber('text')}])[1]`
  const date = `arrayMap(part -> ${localSql(timezone)}, [extractGroups(text, ${quoteString(DATE)})])[1]`
  const rfc = "toUnixTimestamp64Milli(parseDateTime64BestEffortOrNull(text, 3, 'UTC'))"
  return `multiIf(${isNumber}, ${unix}, match(text, ${quoteString(RFC_2822)}), ${rfc}, ${date})`
}

/** The instant of the groups of `DATE` in `part`, computed without the types of ClickHouse, which end in 2299. */
function localSql (timezone: string): string {
  const [year, month, day, hour, minute, second] = [1, 2, 3, 4, 5, 6].map((group) => `toInt64OrZero(part[${group}])`)
  const february = `28 + (${year} % 4 = 0 AND (${year} % 100 != 0 OR ${year} % 400 = 0))`
  const exists = `${day} BETWEEN 1 AND [31, ${february}, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][${month}] AND ${hour} < 24 AND ${minute} < 60 AND ${second} < 60`
  // Years begin in March, so that the day of a leap year is their last.
  const years = `(${year} - (${month} < 3))`
  const days = `${years} * 365 + intDiv(${years}, 4) - intDiv(${years}, 100) + intDiv(${years}, 400) + intDiv(153 * ((${month} + 9) % 12) + 2, 5) + ${day} - 719469`
  const wall = `(((${days}) * 24 + ${hour}) * 60 + ${minute}) * 60000 + ${second} * 1000`
  const milliseconds = "toInt64OrZero(rightPad(substring(part[7], 2, 3), 3, '0'))"
  const digits = "replaceOne(substring(part[8], 2), ':', '')"
  const offset = `if(startsWith(part[8], '-'), -60000, 60000) * (toInt64OrZero(substring(${digits}, 1, 2)) * 60 + toInt64OrZero(substring(${digits}, 3, 2)))`
  const instant = `arrayMap(wall -> wall - if(part[8] = '', ${zoneSql(timezone)}, ${offset}), [${wall}])[1]`
  return `if(${exists}, ${instant} + ${milliseconds}, NULL)`
}

/** How far clocks of the time zone are ahead of UTC when they show `wall`. */
function zoneSql (timezone: string): string {
  const offsets = listOffsets(timezone)
  const list = (field: 'from' | 'offset'): string => offsets.map((each) => each[field]).join(', ')
  return offsets.length === 1 ? String(offsets[0]?.offset) : `[${list('offset')}][arrayLastIndex(begin -> begin <= wall, [${list('from')}])]`
}
