import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { selectFeatureFlag, type FeatureFlag } from './feature-flag.ts'

/**
 * @param options.deleted  Find it also when it is deleted, to answer the request that deleted it.
 * @throws {HttpError} 404 when the project has no such flag.
 */
export async function findFeatureFlag (
  sql: Sql, { projectId, id }: { projectId: number, id: number }, options: { deleted?: boolean } = {}
): Promise<FeatureFlag> {
  const [flag] = await sql<FeatureFlag[]>`
    SELECT ${selectFeatureFlag(sql)} FROM feature_flags AS f
    WHERE f.project_id = ${projectId} AND f.id = ${id} AND (NOT f.deleted OR ${options.deleted ?? false})`
  if (flag === undefined) throw notFound()
  return flag
}
