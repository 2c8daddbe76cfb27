import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import type { Value } from '../../http/json-schema.ts'
import { matchSearch, newestBy, searchQueryProperties, selectPage } from '../../http/list-queries.ts'
import type { PageContent } from '../../http/pagination.ts'
import type { Access } from '../../http/personal-key-access.ts'
import { pageQuery } from '../../http/routes.ts'
import { orNotFound } from '../../http/answer-errors.ts'
import { type FeatureFlag, selectFeatureFlag } from './feature-flag.ts'

export const featureFlagQuery = pageQuery({
  ...searchQueryProperties,
  active: { type: 'boolean', description: 'true: only active flags; false: only inactive ones. Default: all.' }
})

export async function listFeatureFlags (
  sql: Sql, access: Access, query: Value<typeof featureFlagQuery>
): Promise<PageContent<FeatureFlag>> {
  const matches = sql`f.project_id = ${access.projectId} AND NOT f.deleted
    AND (${query.active ?? null}::boolean IS NULL OR f.active = ${query.active ?? null})
    AND ${matchSearch(sql, sql`f.key || ' ' || f.name`, query.search, access)}`
  return await selectPage<FeatureFlag>(sql, query, {
    order: 'newest', select: selectFeatureFlag(sql), from: sql`feature_flags AS f`, where: matches, keys: newestBy(sql`f.id`)
  })
}

/**
 * Reads one flag.
 *
 * @param options.deleted  Return a deleted flag too: for the answer to the request that deleted it.
 * @throws {HttpError} 404 when the project has no such flag.
 */
export async function findFeatureFlag (
  sql: Sql, { projectId, id }: { projectId: number, id: number }, options: { deleted?: boolean } = {}
): Promise<FeatureFlag> {
  const [flag] = await sql<FeatureFlag[]>`
    SELECT ${selectFeatureFlag(sql)} FROM feature_flags AS f
    WHERE f.project_id = ${projectId} AND f.id = ${id} AND (NOT f.deleted OR ${options.deleted ?? false})`
  return orNotFound(flag)
}

/**
 * Reads the payload of a flag for remote configuration: that of the value `true`, the same for everyone.
 *
 * @throws {HttpError} 404 when the project has no such active flag.
 */
export async function findPayload (sql: Sql, projectId: number, key: string): Promise<unknown> {
  const [flag] = await sql<Array<{ payload: unknown }>>`
    SELECT filters #> '{payloads,true}' AS payload FROM feature_flags
    WHERE project_id = ${projectId} AND key = ${key} AND NOT deleted AND active`
  return orNotFound(flag).payload ?? null
}
