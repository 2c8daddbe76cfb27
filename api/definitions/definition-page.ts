/** What a page of definitions says besides them: how fresh they are. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { cutPage } from '../http/list-queries.ts'
import { buildPage, type Page, type PageQuery, pageSchema } from '../http/pagination.ts'

/** A list of definitions, of a table `AS d`. */
export interface DefinitionList<T> {
  table: 'event_definitions' | 'property_definitions'
  query: PageQuery
  columns: Statement
  where: Statement
  orderBy: Statement
  /** The condition of what follows the cursor of the request; undefined: it has none. */
  follows: Statement | undefined
  cursorOf: (last: T) => string
}

/** Columns `as_of` and `complete_through`, as the last roll-up left them; earlier for a project that is behind. */
function selectFreshness (sql: Sql, projectId: number): Statement {
  return sql`coalesce((SELECT as_of FROM roll_up_behind WHERE project_id = ${projectId}),
      (SELECT read_up_to FROM roll_up_state WHERE source = 'recent changes')) AS as_of,
    (SELECT CASE WHEN behind.as_of IS NULL THEN state.read_up_to ELSE behind.complete_through END FROM roll_up_state AS state
      LEFT JOIN roll_up_behind AS behind ON behind.project_id = ${projectId} WHERE state.source = 'complete through') AS complete_through`
}

/** Schema of a page around items of the given schema. */
export function definitionPageSchema (items: object): object {
  const page = pageSchema(items) as { required: string[], properties: object }
  return {
    ...page,
    required: [...page.required, 'complete_through'],
    properties: {
      ...page.properties,
      complete_through: {
        type: ['string', 'null'], format: 'date-time',
        description: 'These definitions count every acknowledged event received before this time; null while unknown.'
      }
    }
  }
}

interface Asked { request: FastifyRequest, reply: FastifyReply, publicUrl: string, projectId: number }

/** Answers a list with two queries. */
export async function answerDefinitions<T extends object> (
  sql: Sql, list: DefinitionList<T>, { request, reply, publicUrl, projectId }: Asked
): Promise<Page<T> & { complete_through: Date | null }> {
  const { query: { limit, offset }, columns, where, orderBy, follows, cursorOf } = list
  const table = sql.unsafe(list.table)
  const [[totals], rows] = await Promise.all([
    sql<{ count: number, as_of: Date | null, complete_through: Date | null }[]>`
      SELECT count(*) AS count, ${selectFreshness(sql, projectId)} FROM ${table} d WHERE ${where}`,
    sql<T[]>`
      SELECT ${columns} FROM ${table} d WHERE ${where} AND ${follows ?? sql`true`}
      ORDER BY ${orderBy} LIMIT ${limit + 1} OFFSET ${follows === undefined ? offset : 0}`
  ])
  // Events up to this time are counted; null before the first roll-up.
  if (totals?.as_of instanceof Date) reply.header('millrace-definitions-as-of', totals.as_of.toISOString())
  const page = cutPage(rows, { limit, count: totals?.count ?? 0, cursorOf })
  return { ...buildPage(request, publicUrl, page), complete_through: totals?.complete_through ?? null }
}
