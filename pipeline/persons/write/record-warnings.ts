import { type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { type PersonsWarning } from '../persons-outcome.ts'

/** Counts warnings by project, reason and day, with the latest as an example. */
export async function recordWarnings (
  transaction: TransactionSql, warnings: readonly PersonsWarning[]
): Promise<void> {
  if (warnings.length === 0) return
  const rows = [...Map.groupBy(warnings, ({ projectId, reason }) => `${projectId}:${reason}`).values()]
    .map((alike) => ({ ...alike.at(-1), occurrences: alike.length }))
    .sort((a, b) => (a.projectId as number) - (b.projectId as number))
  await transaction`
    INSERT INTO persons_warnings AS known (project_id, day, reason, occurrences, example)
    SELECT "projectId", (now() AT TIME ZONE 'UTC')::date, reason, occurrences, example
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new
      ("projectId" integer, reason text, occurrences bigint, example jsonb)
    ON CONFLICT (project_id, day, reason) DO UPDATE SET occurrences = known.occurrences + excluded.occurrences,
      last_seen_at = excluded.last_seen_at, example = excluded.example`
}
