import type { TransactionSql } from './connect-postgres.ts'

/**
 * Locks the persons and groups of projects until the transaction ends.
 *
 * Every change of persons and groups takes this lock first, so what a transaction has read of them stays true until it
 * commits: a merge and every other change of either side run one after the other. Projects are locked in the order of
 * their ids, which prevents deadlocks.
 *
 * @param past  Gets the projects that had an erasure or a repair.
 * @returns by project, the version of all changes under this lock. It grows with each lock, even if the clock goes
 *   back, and it is the time in microseconds, so it also grows after a restored backup. Projects that do not exist are
 *   absent.
 */
export async function lockPersons (
  transaction: TransactionSql, projectIds: readonly number[], past?: Set<number>
): Promise<Map<number, number>> {
  const rows = await transaction<{ projectId: number, version: number, hasPast: boolean }[]>`
    INSERT INTO persons_projects AS locked (project_id, version)
    SELECT id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM projects WHERE id = ANY (${[...projectIds]}::int[]) ORDER BY id
    ON CONFLICT (project_id) DO UPDATE SET version = greatest(excluded.version, locked.version + 1)
    RETURNING project_id AS "projectId", version, num_nonnulls(erased_at, undone_at) > 0 AS "hasPast"`
  for (const { projectId, hasPast } of rows) if (hasPast) past?.add(projectId)
  return new Map(rows.map(({ projectId, version }) => [projectId, version]))
}
