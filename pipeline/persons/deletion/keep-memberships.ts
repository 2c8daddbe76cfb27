/** Anonymised persons stay in their cohorts, so that counts by cohort and flags do not wait for the next refresh. */
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import type { Anonymised } from '../../../schema/wire/anonymise.ts'
import { inChunks } from '../../../schema/wire/erased-ids.ts'

const NOBODY = '00000000-0000-0000-0000-000000000000'

/**
 * Adds the new ids of persons to each version of members that has their former ones, which are removed afterwards.
 * Renaming rows would leave both ids in the text of a mutation.
 *
 * Safe to repeat, and to run in several processes at once: a row too many changes nothing.
 */
export async function keepMemberships (
  { projectId, anonymised }: { projectId: number, anonymised: Anonymised | null },
  { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse }
): Promise<void> {
  for (const chunk of inChunks(Object.entries(anonymised?.persons ?? {}))) {
    const [old, now] = [chunk.map(([each]) => each), chunk.map(([, each]) => each)]
    await clickhouse.command({
      // A row with the nil uuid is in every version.
      query: `INSERT INTO cohort_members (project_id, cohort_id, version, person_id, size)
        SELECT {project: UInt32}, cohort_id, version, arrayJoin(missing), stored + length(missing)
        FROM (
          SELECT cohort_id, version, count() AS stored,
            groupUniqArray(arrayElement({now: Array(UUID)}, indexOf({old: Array(UUID)}, person_id) + 1)) AS wanted,
            groupUniqArrayIf(person_id, person_id IN {now: Array(UUID)}) AS present,
            arrayFilter(each -> NOT has(present, each), wanted) AS missing
          FROM cohort_members WHERE project_id = {project: UInt32} GROUP BY cohort_id, version HAVING stored >= max(size)
        )`,
      query_params: { project: projectId, old, now: [NOBODY, ...now] },
      clickhouse_settings: { async_insert: 0, max_partitions_per_insert_block: '0' }
    })
    await sql`
      INSERT INTO cohort_people (cohort_id, person)
      SELECT cohort_id, becomes FROM unnest(${old}::uuid[], ${now}::uuid[]) AS renamed (was, becomes) JOIN cohort_people ON person = was
      WHERE cohort_id IN (SELECT id FROM cohorts WHERE project_id = ${projectId}) ON CONFLICT DO NOTHING`
  }
}
