import { type TransactionSql } from '../postgres/connect-postgres.ts'

/**
 * Takes the turn of changing the persons and groups of projects, until the transaction ends.
 *
 * Every change of persons and groups is made under it, so that what a transaction read of them stays true until it
 * commits: a merge and everything else that touches either side come one after the other. The rows are locked in the
 * order of their ids, so two transactions never wait for each other in a circle.
 *
 * @returns the version with which all changes of a project are stamped. It rises with every turn, also when the clock
 *   goes back, and is the time in microseconds, so that it rises after a restored backup as well. Projects that do not
 *   exist are absent.
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
