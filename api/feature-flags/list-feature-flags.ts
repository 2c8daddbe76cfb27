import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { cutPage, decodeCursor, encodeCursor, matchSearch } from '../http/list-queries.ts'
import { type PageContent, type PageQuery } from '../http/pagination.ts'
import { selectFeatureFlag, type FeatureFlag } from './feature-flag.ts'

export interface FeatureFlagQuery extends PageQuery {
  search?: string
  active?: boolean
  after?: string
}

/** Name of the order in cursors. */
const ORDER = 'newest'

/** Lists the flags of a project, newest first. */
export async function listFeatureFlags (
  sql: Sql, projectId: number, query: FeatureFlagQuery
): Promise<PageContent<FeatureFlag>> {
  const after = decodeCursor(query.after, ORDER, ['integer'])
  const matches = sql`f.project_id = ${projectId} AND NOT f.deleted
    AND (${query.active ?? null}::boolean IS NULL OR f.active = ${query.active ?? null})
    AND ${matchSearch(sql, sql`f.key || ' ' || f.name`, query.search)}`
  const position = after === undefined ? sql`OFFSET ${query.offset}` : sql``
  const follows = after === undefined ? sql`true` : sql`f.id < ${after[0]!}::bigint`
  const [counted, found] = await Promise.all([
    sql<Array<{ count: number }>>`SELECT count(*)::integer AS count FROM feature_flags AS f WHERE ${matches}`,
    sql<FeatureFlag[]>`SELECT ${selectFeatureFlag(sql)} FROM feature_flags AS f WHERE ${matches} AND ${follows}
      ORDER BY f.id DESC LIMIT ${query.limit + 1} ${position}`
  ])
  return cutPage(found, {
    limit: query.limit,
    count: counted[0]!.count,
    cursorOf: (last) => encodeCursor(ORDER, [String(last.id)])
  })
}
