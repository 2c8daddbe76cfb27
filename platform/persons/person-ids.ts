import { MillraceError } from '../../engines/errors.ts'
import { createUuidV5, textOfUuid } from '../../engines/uuid.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import { type ClickHouse, queryRows } from '../clickhouse/connect-clickhouse.ts'
import type { Sql, TransactionSql } from '../postgres/connect-postgres.ts'

/** Namespace of PostHog's person ids; ClickHouse computes `events.person_id` with the same. */
const NAMESPACE = Buffer.from('932979b465c3442484670b66ec27bc22', 'hex')

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The id of the person of a distinct id until a merge changes it: the UUIDv5 of `<project>:<distinct id>`. */
export function personUuid (projectId: number, distinctId: string): string {
  return textOfUuid(createUuidV5(NAMESPACE, `${projectId}:${distinctId}`))
}

/**
 * Finds a person by the id that events or answers show, also by one from before a merge.
 *
 * @returns the person's current uuid; null when there is no such person.
 * @throws {MillraceError} `MILLRACE_MERGED_PERSONS_UNAVAILABLE` when no person has the id and ClickHouse, which
 *   has the ids of merged persons, does not answer.
 */
export async function findPersonByUuid (
  deps: { sql: Sql, clickhouse: ClickHouse }, projectId: number, uuid: string
): Promise<string | null> {
  if (!UUID.test(uuid)) return null
  const known = await confirmPerson(deps.sql, projectId, uuid)
  if (known !== null) return known
  const current = await readOverride(deps.clickhouse, projectId, uuid)
  return current === null ? null : await confirmPerson(deps.sql, projectId, current)
}

/** Finds the person of a distinct id as an SDK sends it; null when it has none. */
export async function findPersonByDistinctId (
  sql: Sql, projectId: number, distinctId: string
): Promise<string | null> {
  const [person] = await sql<{ uuid: string }[]>`
    SELECT uuid FROM persons WHERE id = (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = ${toDistinctId(distinctId)}
    )`
  return person?.uuid ?? null
}

async function readOverride (clickhouse: ClickHouse, projectId: number, uuid: string): Promise<string | null> {
  try {
    const [override] = await queryRows<{ person_id: string }>(clickhouse, `
      SELECT person_id FROM person_overrides FINAL WHERE project_id = {project: UInt32} AND old_person_id = {uuid: UUID}`,
    { project: projectId, uuid })
    return override?.person_id ?? null
  } catch (cause) {
    throw new MillraceError('MILLRACE_MERGED_PERSONS_UNAVAILABLE',
      'ClickHouse, which remembers the ids of merged persons, does not answer', { action: 'retry', cause })
  }
}

async function confirmPerson (sql: Sql, projectId: number, uuid: string): Promise<string | null> {
  const [person] = await sql<{ uuid: string }[]>`
    SELECT uuid FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
  return person?.uuid ?? null
}

/**
 * Locks the persons and groups of projects until the transaction ends.
 *
 * Every change of persons and groups takes this lock first, so what a transaction has read of them stays true until it
 * commits: a merge and every other change of either side run one after the other. Projects are locked in the order of
 * their ids, which prevents deadlocks.
 *
 * @returns by project, the version of all changes under this lock. It grows with each lock, even if the clock goes
 *   back, and it is the time in microseconds, so it also grows after a restored backup. Projects that do not exist are
 *   absent.
 */
export async function lockPersons (
  transaction: TransactionSql, projectIds: readonly number[]
): Promise<Map<number, number>> {
  const rows = await transaction<{ projectId: number, version: number }[]>`
    INSERT INTO persons_projects AS locked (project_id, version)
    SELECT id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM projects WHERE id = ANY (${[...projectIds]}::int[]) ORDER BY id
    ON CONFLICT (project_id) DO UPDATE SET version = greatest(excluded.version, locked.version + 1)
    RETURNING project_id AS "projectId", version`
  return new Map(rows.map(({ projectId, version }) => [projectId, version]))
}
