import { toDistinctId } from '../../schema/wire/identity.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { UUID } from '../http/request-values.ts'

/**
 * Finds a person by the id that events or answers show, also by one from before a merge.
 *
 * @returns the person's current uuid; null when there is no such person.
 * @throws {HttpError} 503 when no person has the id and ClickHouse does not answer.
 */
export async function findPersonByUuid (
  deps: { sql: Sql, clickhouse: ClickHouse }, projectId: number, uuid: string
): Promise<string | null> {
  if (!UUID.test(uuid)) return null
  const known = await confirmPerson(deps.sql, projectId, uuid)
  if (known !== null) return known
  const [override] = await queryRows<{ current: string }>(deps.clickhouse, `
    SELECT person_id AS current FROM person_overrides FINAL WHERE project_id = {project: UInt32} AND old_person_id = {uuid: UUID}`,
  { project: projectId, uuid }).catch((error: unknown) => { throw describeClickHouseError(error, 'which has the ids of merged persons') })
  return override === undefined ? null : await confirmPerson(deps.sql, projectId, override.current)
}

/** Finds the person of a distinct id as an SDK sends it; null when it has none. */
export async function findPersonByDistinctId (sql: Sql, projectId: number, distinctId: string): Promise<string | null> {
  const [person] = await sql<{ uuid: string }[]>`
    SELECT uuid FROM persons WHERE id = (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = ${toDistinctId(distinctId)}
    )`
  return person?.uuid ?? null
}

async function confirmPerson (sql: Sql, projectId: number, uuid: string): Promise<string | null> {
  const [person] = await sql<{ uuid: string }[]>`
    SELECT uuid FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
  return person?.uuid ?? null
}
