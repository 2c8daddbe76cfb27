/** What a page of definitions says besides them: how fresh they are. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { type KeyedList, selectPage } from '../http/list-queries.ts'
import { buildPage, type Page, type PageQuery, pageSchema } from '../http/pagination.ts'

/** Columns `as_of` and `complete_through`, as the last roll-up left them; earlier for a project that is behind. */
function selectFreshness (sql: Sql, projectId: number): Statement {
  return sql`coalesce((SELECT as_of FROM roll_up_behind WHERE project_id = ${projectId}),
      (SELECT read_up_to FROM roll_up_state WHERE source = 'recent changes')) AS as_of,
    (SELECT CASE WHEN behind.as_of IS NULL THEN state.read_up_to ELSE behind.complete_through END FROM roll_up_state AS state
      LEFT JOIN roll_up_behind AS behind ON behind.project_id = ${projectId} WHERE state.source = 'complete through') AS complete_through`
}

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

interface Asked {
  request: FastifyRequest<{ Querystring: PageQuery & { after?: string } }>
  reply: FastifyReply
  publicUrl: string
  projectId: number
}

export async function answerDefinitions<T extends object> (
  sql: Sql, list: KeyedList, { request, reply, publicUrl, projectId }: Asked
): Promise<Page<T> & { complete_through: Date | null }> {
  const { facts, ...page } = await selectPage<T, { as_of: Date | null, complete_through: Date | null }>(
    sql, request.query, { ...list, facts: selectFreshness(sql, projectId) })
  // Events up to this time are counted; null before the first roll-up.
  if (facts?.as_of instanceof Date) reply.header('millrace-definitions-as-of', facts.as_of.toISOString())
  return { ...buildPage(request, publicUrl, page), complete_through: facts?.complete_through ?? null }
}
