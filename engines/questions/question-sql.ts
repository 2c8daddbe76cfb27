/** The parts of SQL that all kinds of questions have. What a person wrote stands in it as quoted text only. */
import { ADDRESS_MASK, ADDRESS_PATTERN } from '../mail-addresses.ts'
import type { PropertyCondition } from '../operators/property-conditions.ts'
import { SORTED_LEVELS } from '../operators/property-test.ts'
import { quoteString } from 'chdb-server/sql-lexer'
import type { Calendar, ResolvedRange, Span } from './calendar.ts'
import type { Breakdown, EventChoice, Interval } from './question.ts'

/** What a question is asked of. */
export interface Subject {
  projectId: number
  includeBots: boolean
  range?: Pick<ResolvedRange, 'storedUntil'>
}

/** The marks of a breakdown in the column `tag`; a value stands behind an equals sign. */
export const TAGS = { all: '', notSet: '-', rest: '+', value: '=' } as const

/** The person of a row `event` beside `mergesSql`. */
export const PERSON = "coalesce(nullIf(merged.person_id, toUUID('00000000-0000-0000-0000-000000000000')), event.person_id)"

/** The join of `events_with_person`, for one project: with one column as its key it costs half. */
export function mergesSql (projectId: number): string {
  return `ANY LEFT JOIN (SELECT old_person_id, person_id FROM person_overrides FINAL WHERE project_id = ${projectId}) AS merged ON event.person_id = merged.old_person_id`
}

/** The join of persons for a breakdown by a property of theirs, behind `mergesSql`. */
export function knownSql (breakdown: Breakdown | null, projectId: number): string {
  if (breakdown?.type !== 'person') return ''
  return `ANY LEFT JOIN (SELECT person_id AS known_id, properties AS person_properties FROM persons FINAL WHERE project_id = ${projectId}) AS known ON ${PERSON} = known.known_id`
}

/** When members were stored, and the person in question. */
interface Membership { storedUntil?: number | undefined, person?: string }

/**
 * The members of a cohort as of its last refresh, or of the last one that began by `storedUntil`; merges since then are
 * followed. A refresh inserts a version in several blocks, and each row has the number of all of them at least: a
 * version counts once it is whole. A cohort never computed is an error, and not empty.
 */
export function membersSql (id: number | string, projectId: number, { storedUntil }: Membership = {}): string {
  const own = `project_id = ${projectId} AND cohort_id = ${id}${storedUntil === undefined ? '' : ` AND version <= ${storedUntil}`}`
  const newest = `SELECT max(version) + throwIf(max(version) = 0, 'Cohort ${id} does not exist, or has not been computed yet') FROM (SELECT version FROM cohort_members WHERE ${own} GROUP BY version HAVING count() >= max(size))`
  return `(SELECT ${PERSON} AS person_id FROM (SELECT person_id FROM cohort_members WHERE ${own} AND version = (${newest})) AS event ${mergesSql(projectId)})`
}

/** The marks of the cohorts of a breakdown that a person is in. */
export function cohortTagsSql (
  { cohorts }: Breakdown, projectId: number, { person = PERSON, storedUntil }: Membership
): string {
  const tags = cohorts.map((id) => `if(${person} IN ${membersSql(id, projectId, { storedUntil })}, '${TAGS.value}${id}', '')`)
  return `if(empty(arrayFilter(each -> each != '', [${tags.join(', ')}]) AS own_tags), ['${TAGS.notSet}'], own_tags)`
}

/**
 * A property as text, by the rules of flags: null is the text null, and only an absent property is NULL.
 *
 * @param column  Of JSON.
 * @param sorts  The names of objects are sorted, for what depends on their order: it takes 20 ms a query to plan.
 */
export function propertyText (name: string, sorts: boolean, column = 'properties'): string {
  const key = quoteString(name)
  const type = `JSONType(${column}, ${key})`
  const raw = `JSONExtractRaw(${column}, ${key})`
  const sorted = sorts ? `${type} IN ('Object', 'Array') AND position(${raw}, '{') > 0, ${sortedJson(raw, SORTED_LEVELS)}, ` : ''
  return `multiIf(${type} = 'String', JSONExtractString(${column}, ${key}), ${sorted}nullIf(${raw}, ''))`
}

/** The JSON of an object or a list with sorted names, down to `levels`. */
function sortedJson (json: string, levels: number): string {
  if (levels === 0) return json
  const [entry, name] = [`entry_${levels}`, "concat(replaceAll(toJSONString(pair.1), '\\\\/', '/'), ':')"]
  const entries = `if(startsWith(${json}, '{'), arrayMap(pair -> (${name}, pair.2), arraySort(JSONExtractKeysAndValuesRaw(${json}))), arrayMap(item -> ('', item), JSONExtractArrayRaw(${json})))`
  const items = `arrayMap(${entry} -> concat(${entry}.1, ${sortedJson(`${entry}.2`, levels - 1)}), ${entries})`
  return `if(left(${json}, 1) IN ('{', '['), concat(left(${json}, 1), arrayStringConcat(${items}, ','), right(${json}, 1)), ${json})`
}

/** A text as a number; NULL for any other text, nan and inf included, which ClickHouse would take for numbers. */
export function textAsNumber (text: string): string {
  const number = `toFloat64OrNull(if(match(assumeNotNull(${text}), '^[-+.0-9eE]+$'), ${text}, NULL))`
  return `if(isFinite(${number}), ${number}, NULL)`
}

/** A property as a number, numbers in texts included; NULL for everything else, and beyond 1e60. */
export function propertyNumber (name: string): string {
  const number = textAsNumber(propertyText(name, false))
  return `if(abs(${number}) <= 1e60, ${number}, NULL)`
}

/** Longer values are cut, with a hash to tell them apart: a breakdown is for people, and 25 values may be megabytes. */
const LONGEST_VALUE = 200

function maskSql (text: string): string {
  return `replaceRegexpAll(${text}, ${quoteString(ADDRESS_PATTERN)}, '${ADDRESS_MASK}')`
}

/** The mark of the value that a property has. */
export function tagOf ({ property, type, isMasked = false }: Breakdown): string {
  const own = propertyText(property, true, type === 'person' ? 'person_properties' : 'properties')
  const cut = `concat(substringUTF8(text, 1, ${LONGEST_VALUE}), '… (cut, ', toString(lengthUTF8(text)), ' characters, hash ', lower(hex(cityHash64(text))), ')')`
  const value = `arrayMap(text -> if(lengthUTF8(text) > ${LONGEST_VALUE}, ${cut}, text), [${isMasked ? maskSql(own) : own}])[1]`
  return `ifNull(concat('${TAGS.value}', ${value}), '${TAGS.notSet}')`
}

/** Whether the order of names matters: between two names is a comma, and around all of them braces. */
function dependsOnOrder (operator: string, values: readonly string[]): boolean {
  return operator.endsWith('regex') || values.some((value) => /^is_not$|^exact$/.test(operator) ? value.includes('{') : /[{},]/.test(value))
}

/** Whether a row with `properties` meets a condition, with the meaning that its operator has in feature flags. */
export function conditionSql ({ key, operator, values, isMasked = false }: Omit<PropertyCondition, 'type'>): string {
  const sorts = dependsOnOrder(operator, values)
  const text = propertyText(key, sorts)
  if (!sorts && !isMasked) return testSql(text, operator, values)
  // Sorting and masking are spelled out once.
  return `arrayExists(text -> ${testSql('text', operator, values)}, [${isMasked ? maskSql(text) : text}])`
}

function testSql (text: string, operator: PropertyCondition['operator'], values: readonly string[]): string {
  const known = `assumeNotNull(${text})`
  const list = `[${values.map(quoteString).join(', ')}]`
  const first = quoteString(values[0] ?? '')
  const number = textAsNumber(text)
  const bound = (at: number): string => `toFloat64OrNull(${quoteString(values[at] ?? '')})`
  const has = (test: string): string => `(${text} IS NOT NULL AND ${test})`
  const any = (test: (part: string) => string): string => values.length === 1 ? test(first) : `arrayExists(part -> ${test('part')}, ${list})`
  switch (operator) {
    case 'is_set': return `${text} IS NOT NULL`
    case 'is_not_set': return `${text} IS NULL`
    case 'exact': return has(`has(${list}, lowerUTF8(${known}))`)
    case 'is_not': return `NOT ${has(`has(${list}, lowerUTF8(${known}))`)}`
    case 'icontains': case 'icontains_multi': return has(`arrayExists(part -> position(lower(${known}), part) > 0, ${list})`)
    case 'not_icontains': case 'not_icontains_multi': return `NOT ${has(`arrayExists(part -> position(lower(${known}), part) > 0, ${list})`)}`
    case 'starts_with': return has(any((part) => `startsWith(lower(${known}), ${part})`))
    case 'not_starts_with': return `NOT ${has(any((part) => `startsWith(lower(${known}), ${part})`))}`
    case 'ends_with': return has(any((part) => `endsWith(lower(${known}), ${part})`))
    case 'not_ends_with': return `NOT ${has(any((part) => `endsWith(lower(${known}), ${part})`))}`
    // Longer texts match no pattern, and no negated one: flags bound what a pattern may cost.
    case 'regex': return has(`lengthUTF8(${known}) <= 16384 AND ${any((part) => `match(${known}, ${part})`)}`)
    case 'not_regex': return `(${text} IS NULL OR (lengthUTF8(${known}) <= 16384 AND NOT ${any((part) => `match(${known}, ${part})`)}))`
    case 'gt': case 'gte': case 'lt': case 'lte':
      return `ifNull(${number} ${operator.startsWith('g') ? '>' : '<'}${operator.endsWith('e') ? '=' : ''} ${bound(0)}, false)`
    case 'between': return `ifNull(${number} BETWEEN ${bound(0)} AND ${bound(1)}, false)`
    case 'in': case 'not_in': throw new Error('a membership is no property')
    case 'not_between': return `(${text} IS NULL OR ifNull(${number} NOT BETWEEN ${bound(0)} AND ${bound(1)}, false))`
  }
}

/** Whether the person of a row `event` beside `mergesSql` meets a condition. Who has no row has no properties. */
function personConditionSql (condition: PropertyCondition, projectId: number): string {
  const isMetByNothing = /^(?:is_)?not/.test(condition.operator)
  const meets = conditionSql(condition)
  return `${PERSON} ${isMetByNothing ? 'NOT IN' : 'IN'} (SELECT person_id FROM persons FINAL WHERE project_id = ${projectId} AND ${isMetByNothing ? `NOT (${meets})` : meets})`
}

/** Whether a person is in a cohort, or is not. */
export function memberSql (
  { operator, values: [id = ''] }: PropertyCondition, projectId: number, { person = PERSON, storedUntil }: Membership
): string {
  return `${person} ${operator === 'in' ? 'IN' : 'NOT IN'} ${membersSql(id, projectId, { storedUntil })}`
}

/** Whether an event is one of the chosen. */
export function choiceSql ({ event, where }: EventChoice, projectId: number, { storedUntil }: Membership = {}): string {
  const sqlOf = { event: conditionSql, person: personConditionSql, cohort: memberSql }
  const parts = [
    ...event === null ? [] : [`event = ${quoteString(event)}`],
    ...where.map((condition) => sqlOf[condition.type](condition, projectId, { storedUntil }))
  ]
  return parts.length === 0 ? '1' : `(${parts.join(' AND ')})`
}

/** Whether events are chosen by their persons. */
export function hasPersonConditions (choices: readonly EventChoice[]): boolean {
  return choices.some(({ where }) => where.some(({ type }) => type !== 'event'))
}

/** The rows of the project that may matter: the names of their events are in the order of the table. */
export function rowsSql ({ projectId, includeBots, range }: Subject, choices: readonly EventChoice[]): string {
  const names = choices.map(({ event }) => event)
  const known = names.filter((name) => name !== null)
  return [
    `project_id = ${projectId}`,
    ...known.length < names.length ? [] : [`event IN (${[...new Set(known)].map(quoteString).join(', ')})`],
    ...includeBots ? [] : ['NOT is_bot'],
    ...range?.storedUntil === undefined ? [] : [`inserted_at <= ${instantSql(range.storedUntil)}`]
  ].join(' AND ')
}

export function instantSql (instant: number): string {
  return `toDateTime64('${new Date(instant).toISOString().slice(0, -1).replace('T', ' ')}', 3, 'UTC')`
}

export function spanSql ({ from, to }: Span): string {
  return `timestamp >= ${instantSql(from)} AND timestamp < ${instantSql(to)}`
}

/** The bucket that a time lies in, by the clock of the project: its first day, or the hour in real time. */
export function bucketSql (time: string, interval: Interval, { timezone, weekStarts }: Calendar): string {
  const zone = quoteString(timezone)
  switch (interval) {
    // Of real time: the hour that clocks show twice is two.
    case 'hour': return `toStartOfHour(toTimeZone(${time}, ${zone}))`
    case 'day': return `toDate(${time}, ${zone})`
    case 'week': return `toStartOfWeek(toDate(${time}, ${zone}), ${weekStarts === 'monday' ? 1 : 0})`
    case 'month': return `toStartOfMonth(toDate(${time}, ${zone}))`
  }
}
