import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'

/**
 * The payload of a flag as SDKs fetch it for configuration: that of the value `true`, anyone who asks.
 *
 * @throws {HttpError} 404 when the project has no such active flag.
 */
export async function findPayload (sql: Sql, projectId: number, key: string): Promise<unknown> {
  const [flag] = await sql<Array<{ payload: unknown }>>`
    SELECT filters #> '{payloads,true}' AS payload FROM feature_flags
    WHERE project_id = ${projectId} AND key = ${key} AND NOT deleted AND active`
  if (flag === undefined) throw notFound()
  return flag.payload ?? null
}
