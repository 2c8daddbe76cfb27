/** Quotas of projects in Postgres. */
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type ActiveQuota, type ProjectQuota, QUOTA_COLUMNS, QUOTAS } from '../../schema/project-quotas.ts'

/** A quota as it is shown: with the time of its last change. */
export interface StoredQuota extends ActiveQuota {
  updatedAt: Date
}

/** Undefined: the project has none. */
export async function readQuota (sql: Sql | TransactionSql, projectId: number): Promise<StoredQuota | undefined> {
  const [quota] = await sql<StoredQuota[]>`
    SELECT ${sql.unsafe(QUOTA_COLUMNS)}, q.updated_at AS "updatedAt"
    FROM ${sql.unsafe(QUOTAS)} WHERE q.project_id = ${projectId}`
  return quota
}

/** Sets or replaces the quota of a project. Every ingest process has it within a second. */
export async function setQuota (
  sql: Sql | TransactionSql, projectId: number, quota: ProjectQuota
): Promise<void> {
  const { eventsPerSecond, burst, eventsPerMonth, beyond, sampleRate } = quota
  await sql`
    INSERT INTO project_quotas (project_id, events_per_second, burst, events_per_month, beyond, sample_rate)
    VALUES (${projectId}, ${eventsPerSecond}, ${burst}, ${eventsPerMonth}, ${beyond}, ${sampleRate})
    ON CONFLICT (project_id) DO UPDATE SET events_per_second = excluded.events_per_second, burst = excluded.burst,
      events_per_month = excluded.events_per_month, beyond = excluded.beyond, sample_rate = excluded.sample_rate,
      updated_at = now()`
}

export async function clearQuota (sql: Sql | TransactionSql, projectId: number): Promise<void> {
  await sql`DELETE FROM project_quotas WHERE project_id = ${projectId}`
}
