/** Counts what events asked of persons and groups and was not done. */
import { postWarnings, toCopyTime } from '../../platform/persons/persons-outbox.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { INGESTION_WARNINGS, MAX_SAMPLES } from '../../schema/wire/ingestion-warnings.ts'
import type { PersonsWarning } from './persons-outcome.ts'

/**
 * Counts warnings in the transaction that refuses, so each counts exactly once: by day in `persons_warnings`, with the
 * latest as an example, and by minute in `persons_warning_minutes`, whose totals go to ClickHouse with the copies.
 */
export async function recordWarnings (
  transaction: TransactionSql, partition: number, warnings: readonly PersonsWarning[]
): Promise<void> {
  if (warnings.length === 0) return
  const groups = [...Map.groupBy(warnings, ({ projectId, reason }) => `${projectId}:${reason}`).values()]
    .sort(([a], [b]) => a!.projectId - b!.projectId)
  await countByDay(transaction, groups)
  await postWarnings(transaction, await countByMinute(transaction, partition, groups))
}

async function countByDay (transaction: TransactionSql, groups: readonly PersonsWarning[][]): Promise<void> {
  const rows = groups.map((alike) => ({ ...alike.at(-1), occurrences: alike.length }))
  await transaction`
    INSERT INTO persons_warnings AS known (project_id, day, reason, occurrences, example)
    SELECT "projectId", (now() AT TIME ZONE 'UTC')::date, reason, occurrences, example
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new
      ("projectId" integer, reason text, occurrences bigint, example jsonb)
    JOIN projects ON projects.id = "projectId"
    ON CONFLICT (project_id, day, reason) DO UPDATE SET occurrences = known.occurrences + excluded.occurrences,
      last_seen_at = excluded.last_seen_at, example = excluded.example`
}

/** A minute of Postgres: `effect` is left to be added. */
interface MinuteRow {
  project_id: number
  minute: number
  reason: PersonsWarning['reason']
  source: string
  count: number
  samples: object[]
}

/** @returns the rows of ClickHouse that changed. */
async function countByMinute (
  transaction: TransactionSql, partition: number, groups: readonly PersonsWarning[][]
): Promise<Record<string, unknown>[]> {
  const rows = groups.map((alike) => ({
    ...alike[0], occurrences: alike.length, samples: alike.slice(0, MAX_SAMPLES).map(toSample)
  }))
  await transaction`
    DELETE FROM persons_warning_minutes WHERE partition = ${partition} AND minute < now() - interval '1 day'`
  const changed = await transaction<MinuteRow[]>`
    INSERT INTO persons_warning_minutes AS known (project_id, partition, minute, reason, occurrences, samples)
    SELECT "projectId", ${partition}, date_trunc('minute', now()), reason, occurrences, samples
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new
      ("projectId" integer, reason text, occurrences bigint, samples jsonb)
    ON CONFLICT (partition, project_id, minute, reason) DO UPDATE SET
      occurrences = known.occurrences + excluded.occurrences,
      samples = CASE WHEN jsonb_array_length(known.samples) < ${MAX_SAMPLES}
        THEN jsonb_path_query_array(known.samples || excluded.samples, '$[0 to 2]') ELSE known.samples END
    RETURNING project_id, extract(epoch FROM minute)::bigint AS minute, reason, occurrences AS count, samples`
  return changed.map((row) => ({ ...row, source: `persons-${partition}`, effect: INGESTION_WARNINGS[row.reason] }))
}

/** The examples have ids of events and persons, and names of groups. */
function toSample ({ example }: PersonsWarning): object {
  const { uuid = '', distinctId = '', otherDistinctId, groupType, groupKey, detail } = example
  return {
    received_at: toCopyTime(Date.now()),
    event: '',
    distinct_id: distinctId,
    uuid,
    lib: '',
    lib_version: '',
    value: otherDistinctId ?? detail ?? [groupType, groupKey].filter((part) => part !== undefined).join(': ')
  }
}
