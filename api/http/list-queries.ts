import { type HttpError, invalidField } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { ADDRESS_MASK, ADDRESS_PATTERN } from '../../engines/mail-addresses.ts'
import { isStorableText } from '../../engines/body/storable-text.ts'
import type { PageContent, PageQuery } from './pagination.ts'
import type { Access } from './personal-key-access.ts'
import { isIsoDateTime, parseInteger } from './request-values.ts'

/** What a query casts a value of a cursor to; a forged one must not reach the query. */
export type CursorKind = 'text' | 'integer' | 'time'

/** Query parameter of lists that can be searched by name. */
export const searchQueryProperties = {
  search: {
    type: 'string', maxLength: 1000,
    description: 'Words that must all occur in the name, in any order and case, without wildcards.'
  }
} as const

/**
 * A condition that is true when all words of a search occur in a column. Words are literal: `%`, `_` and regular
 * expressions have no special meaning. Somebody who does not see persons searches names as they are shown.
 */
export function matchSearch (
  sql: Sql, column: Statement, search: string | undefined, access: Pick<Access, 'seesPersons'>
): Statement {
  const name = shownName(sql, column, access)
  const words = (search ?? '').split(/\s+/).filter((word) => word !== '')
  if (words.length === 0) return sql`true`
  return sql`(SELECT bool_and(strpos(lower(${name}), lower(word)) > 0) FROM unnest(${words}::text[]) AS word)`
}

/** Somebody who does not see persons gets names without addresses. */
export function shownName (sql: Sql, column: Statement, { seesPersons }: Pick<Access, 'seesPersons'>): Statement {
  return seesPersons ? column : sql`regexp_replace(${column}, ${ADDRESS_PATTERN}, ${ADDRESS_MASK}, 'g')`
}

/** Query parameter of lists for the cursor in `next` links; clients must not construct it. */
export const cursorQueryProperties = {
  after: { type: 'string', maxLength: 4000, description: 'Cursor of the page; taken from a `next` link.' }
} as const

/**
 * Encodes the position of an item in a list: the values it is sorted by, as strings, with the name of the order.
 *
 * Offsets are part of the contract, but shift when items are added or deleted; a cursor does not.
 */
export function encodeCursor (order: string, values: readonly string[]): string {
  return Buffer.from(JSON.stringify([order, ...values])).toString('base64url')
}

/**
 * Reads the `after` of a request.
 *
 * @param order  The order of this list; a cursor of another one is refused, because it would skip items.
 * @param kinds  The types of its values.
 * @returns undefined when the request has none.
 * @throws {HttpError} 400 for a string that `encodeCursor` did not make.
 */
export function decodeCursor (
  after: string | undefined, order: string, kinds: readonly CursorKind[]
): string[] | undefined {
  if (after === undefined) return undefined
  const [name, ...values] = readArray(after) ?? []
  if (name === order && values.length === kinds.length && kinds.every((kind, i) => isOfKind(values[i], kind))) {
    return values as string[]
  }
  throw invalidCursor()
}

export function invalidCursor (): HttpError {
  return invalidField('after', 'after must come from the next link of this list.')
}

function isOfKind (value: unknown, kind: CursorKind): boolean {
  if (typeof value !== 'string' || !isStorableText(value)) return false
  if (kind === 'integer') return parseInteger(value) !== undefined
  return kind === 'text' || value === '-infinity' || isIsoDateTime(value)
}

function readArray (text: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return Array.isArray(value) ? value : undefined
  } catch {
    // Not JSON: the caller refuses it.
    return undefined
  }
}

/**
 * Makes a page of rows that were queried with one row beyond the limit, which shows whether more items follow.
 *
 * @param cursorOf  The cursor of an item (`encodeCursor`).
 */
export function cutPage<T> (
  rows: readonly T[], page: { limit: number, count: number, cursorOf: (last: T) => string }
): PageContent<T> {
  const results = rows.slice(0, page.limit)
  const last = results.at(-1)
  return {
    results,
    count: page.count,
    more: rows.length > page.limit,
    after: last === undefined ? undefined : page.cursorOf(last)
  }
}

export interface OrderKey {
  by: Statement
  kind: CursorKind
  descends?: boolean
}

/** A list in Postgres. */
export interface KeyedList {
  order: string
  select: Statement
  from: Statement
  where: Statement
  /** No two items share all of them. */
  keys: readonly OrderKey[]
  /** Columns that are read beside the count. */
  facts?: Statement
}

export function newestBy (id: Statement): OrderKey[] {
  return [{ by: id, kind: 'integer', descends: true }]
}

/** By name as it is shown, compared by bytes, then by id: names may be the same, or look the same. */
export function byName (
  sql: Sql, { name, id }: { name: Statement, id: Statement }, access: Pick<Access, 'seesPersons'>, descends = false
): OrderKey[] {
  return [
    { by: sql`${shownName(sql, name, access)} COLLATE "C"`, kind: 'text', descends }, { by: sql`${id}::text`, kind: 'text' }
  ]
}

/** Reads a page of a list with two queries. @throws {HttpError} 400 for a cursor of another list. */
export async function selectPage<T extends object, Facts extends object = object> (
  sql: Sql, { limit, offset, after }: PageQuery & { after?: string },
  { order, select, from, where, keys, facts }: KeyedList
): Promise<PageContent<T> & { facts: Facts | undefined }> {
  const last = decodeCursor(after, order, keys.map(({ kind }) => kind))
  const place = join(sql, keys.map(({ by }) => sql`(${by})::text`))
  const [[counted], found] = await Promise.all([
    sql<({ count: number } & Facts)[]>`
      SELECT count(*)::integer AS count ${facts === undefined ? sql`` : sql`, ${facts}`} FROM ${from} WHERE ${where}`,
    sql<(T & { place_in_list?: string[] })[]>`
      SELECT ${select}, json_build_array(${place}) AS place_in_list FROM ${from}
      WHERE ${where} AND ${last === undefined ? sql`true` : matchAfter(sql, keys, last)}
      ORDER BY ${join(sql, keys.map(({ by, descends }) => sql`${by} ${descends === true ? sql`DESC` : sql`ASC`}`))}
      LIMIT ${limit + 1} OFFSET ${last === undefined ? offset : 0}`
  ])
  const page = cutPage(found, {
    limit, count: counted?.count ?? 0, cursorOf: (item) => encodeCursor(order, item.place_in_list ?? [])
  })
  for (const item of page.results) delete item.place_in_list
  return { ...page, facts: counted }
}

/** What comes after a place: in its first key, or in the others when that is the same. */
function matchAfter (sql: Sql, [key, ...others]: readonly OrderKey[], [value, ...rest]: readonly string[]): Statement {
  if (key === undefined || value === undefined) return sql`false`
  // Cast by way of text: the driver would read a parameter as a Date, and drop its microseconds.
  const last = key.kind === 'time' ? sql`${value}::text::timestamptz` : key.kind === 'integer' ? sql`${value}::bigint` : sql`${value}::text`
  const isAfter = key.descends === true ? sql`${key.by} < ${last}` : sql`${key.by} > ${last}`
  return others.length === 0 ? isAfter : sql`(${isAfter} OR (${key.by} = ${last} AND ${matchAfter(sql, others, rest)}))`
}

function join (sql: Sql, parts: readonly Statement[]): Statement {
  return parts.reduce((all, part) => sql`${all}, ${part}`)
}
