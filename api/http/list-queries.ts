import { HttpError } from '../../platform/errors.ts'
import { type Sql, type Statement } from '../../platform/postgres/connect-postgres.ts'
import { isStorableText } from '../../platform/storable-text.ts'
import { type PageContent } from './pagination.ts'
import { isIsoDateTime, parseInteger } from './request-values.ts'

/** What a query casts a value of a cursor to; a forged one must not reach the query. */
export type CursorKind = 'text' | 'integer' | 'time'

/** Query parameter of lists that can be searched by name. */
export const searchQueryProperties = {
  search: {
    type: 'string', maxLength: 1000,
    description: 'Words that must all occur in the name, in any case and order. Every character stands for itself.'
  }
} as const

/**
 * A condition that is true when all words of a search occur in a column. The words are compared as they are: `%`,
 * `_`, regular expressions and SQL have no meaning here.
 */
export function matchSearch (sql: Sql, column: Statement, search: string | undefined): Statement {
  const words = (search ?? '').split(/\s+/).filter((word) => word !== '')
  if (words.length === 0) return sql`true`
  return sql`(SELECT bool_and(strpos(lower(${column}), lower(word)) > 0) FROM unnest(${words}::text[]) AS word)`
}

/** Query parameter of lists that links carry; clients pass it on and do not make it up. */
export const cursorQueryProperties = {
  after: { type: 'string', maxLength: 4000, description: 'Where the previous page ended; only from a `next` link.' }
} as const

/**
 * The place of an item in a list: the values it is sorted by, as text, with the name of the order.
 *
 * Offsets are part of the contract, but shift when items are added or deleted; the place of an item does not.
 */
export function encodeCursor (order: string, values: readonly string[]): string {
  return Buffer.from(JSON.stringify([order, ...values])).toString('base64url')
}

/**
 * Reads the `after` of a request.
 *
 * @param order  The order of this list; a cursor of another one is refused, because it would skip items.
 * @param kinds  The values of the order.
 * @returns undefined when the request has none.
 * @throws {HttpError} 400 for a text that `encodeCursor` did not make.
 */
export function decodeCursor (
  after: string | undefined, order: string, kinds: readonly CursorKind[]
): string[] | undefined {
  if (after === undefined) return undefined
  const [name, ...values] = readArray(after) ?? []
  if (name === order && values.length === kinds.length && kinds.every((kind, i) => isOfKind(values[i], kind))) {
    return values as string[]
  }
  throw new HttpError(400, 'validation_error', 'invalid_input', 'after must come from the next link of this list.', { attr: 'after' })
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
    // Not JSON, so not ours: the caller says so.
    return undefined
  }
}

/**
 * Cuts a page out of rows that were asked for one beyond its limit, which tells whether others follow.
 *
 * @param cursorOf  Where an item stands in the order of the list (`encodeCursor`).
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
