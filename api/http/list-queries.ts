import { type HttpError, invalidField } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { isStorableText } from '../../engines/body/storable-text.ts'
import type { PageContent, PageQuery } from './pagination.ts'
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
 * expressions have no special meaning.
 */
export function matchSearch (sql: Sql, column: Statement, search: string | undefined): Statement {
  const words = (search ?? '').split(/\s+/).filter((word) => word !== '')
  if (words.length === 0) return sql`true`
  return sql`(SELECT bool_and(strpos(lower(${column}), lower(word)) > 0) FROM unnest(${words}::text[]) AS word)`
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

/** What `decodeCursor` throws. */
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

/** A list in Postgres whose order has one key that no two items share. */
export interface KeyedList<T> {
  /** Name of the order in cursors. */
  order: string
  select: Statement
  from: Statement
  where: Statement
  key: Statement
  /** Integers descend, the newest first; texts ascend. */
  kind: 'integer' | 'text'
  keyOf: (item: T) => string | number
}

/**
 * Reads a page of a list with two queries.
 *
 * @throws {HttpError} 400 for a cursor of another list.
 */
export async function selectPage<T extends object> (
  sql: Sql, { limit, offset, after }: PageQuery & { after?: string }, list: KeyedList<T>
): Promise<PageContent<T>> {
  const { order, select, from, where, key, kind, keyOf } = list
  const [last] = decodeCursor(after, order, [kind]) ?? []
  const follows = kind === 'integer' ? sql`${key} < ${last!}::bigint` : sql`${key} > ${last!}`
  const [counted, found] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM ${from} WHERE ${where}`,
    sql<T[]>`SELECT ${select} FROM ${from} WHERE ${where} AND ${last === undefined ? sql`true` : follows}
      ORDER BY ${key} ${kind === 'integer' ? sql`DESC` : sql`ASC`} LIMIT ${limit + 1} OFFSET ${last === undefined ? offset : 0}`
  ])
  return cutPage(found, {
    limit, count: counted[0]?.count ?? 0, cursorOf: (item) => encodeCursor(order, [String(keyOf(item))])
  })
}
