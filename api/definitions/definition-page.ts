/** What a page of definitions says besides them: how fresh they are. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { buildPage, type Page, type PageContent, pageSchema } from '../http/pagination.ts'

export interface DefinitionPage<T> extends PageContent<T> {
  /** Events up to this time are counted; null before the first roll-up. */
  asOf: Date | null
  /** Every event received before this moment is counted; null while that is not known. */
  completeThrough: Date | null
}

/** The first row of a list's query for its totals. */
export interface DefinitionTotals {
  count: number
  as_of: Date | null
  complete_through: Date | null
}

/** Columns `as_of` and `complete_through`, as the last roll-up left them; earlier for a project that is behind. */
export function selectFreshness (sql: Sql, projectId: number): Statement {
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
        description: 'Every acknowledged event received before is counted in these definitions; null while that is not known.'
      }
    }
  }
}

/** Builds the answer of a list. */
export function answerDefinitions<T> (
  { request, reply, publicUrl }: { request: FastifyRequest, reply: FastifyReply, publicUrl: string },
  page: DefinitionPage<T>
): Page<T> & { complete_through: Date | null } {
  const { asOf, completeThrough, ...content } = page
  if (asOf !== null) reply.header('millrace-definitions-as-of', asOf.toISOString())
  return { ...buildPage(request, publicUrl, content), complete_through: completeThrough }
}
