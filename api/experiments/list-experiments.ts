import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { cutPage, decodeCursor, encodeCursor, matchSearch } from '../http/list-queries.ts'
import { type PageContent, type PageQuery } from '../http/pagination.ts'
import { selectExperiment, type Experiment } from './experiment.ts'

export interface ExperimentQuery extends PageQuery {
  search?: string
  archived?: boolean
  after?: string
}

/** Lists a page of experiments, newest first, with two queries. */
export async function listExperiments (
  sql: Sql, projectId: number, query: ExperimentQuery
): Promise<PageContent<Experiment>> {
  const where = sql`e.project_id = ${projectId} AND NOT e.deleted
    AND ${query.archived === undefined ? sql`true` : sql`e.archived = ${query.archived}`}
    AND ${matchSearch(sql, sql`e.name`, query.search)}`
  const after = decodeCursor(query.after, 'newest', ['integer'])

  const [totals, rows] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*) AS count FROM experiments e WHERE ${where}`,
    sql<Experiment[]>`
      SELECT ${selectExperiment(sql)}
      FROM experiments e JOIN feature_flags f ON f.id = e.feature_flag_id
      WHERE ${where} AND ${after === undefined ? sql`true` : sql`e.id < ${after[0]!}::bigint`}
      ORDER BY e.id DESC
      LIMIT ${query.limit + 1} OFFSET ${after === undefined ? query.offset : 0}`
  ])
  return cutPage(rows, {
    limit: query.limit,
    count: totals[0]?.count ?? 0,
    cursorOf: (last) => encodeCursor('newest', [String(last.id)])
  })
}
