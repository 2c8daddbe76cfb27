import { type PageContent } from './pagination.ts'

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
