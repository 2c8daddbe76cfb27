import { type Sql, type Statement } from '../../../platform/postgres/connect-postgres.ts'

/** A part of a query, to be put into a larger one. */
export type SqlFragment = Statement

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
export function matchSearch (sql: Sql, column: SqlFragment, search: string | undefined): SqlFragment {
  const words = (search ?? '').split(/\s+/).filter((word) => word !== '')
  if (words.length === 0) return sql`true`
  return sql`(SELECT bool_and(strpos(lower(${column}), lower(word)) > 0) FROM unnest(${words}::text[]) AS word)`
}
