/**
 * Living membership: a task finds the members of each cohort anew, one cohort after another, in the one process that
 * holds the lease. Each gets at most a twentieth of a core: the longer it takes, the longer until the next time.
 */
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { ListWindowTasks } from './window-task.ts'
import { type Cohort, type CohortDeps, dropCohort, refreshCohort } from './refresh-cohort.ts'

/** Least time between two refreshes of a cohort: in seconds, and as a multiple of what the last one took. */
const [REFRESH_S, PAUSES] = [300, 20]

const MAX_ERROR_LENGTH = 500

/** The cohort whose turn it is: first those that somebody asked for, then those that waited longest. */
async function findDue (sql: Sql): Promise<Cohort | undefined> {
  const [due] = await sql<Cohort[]>`
    SELECT c.id, c.project_id AS "projectId", c.filters, c.question, c.is_static AS "isStatic", c.deleted, date_trunc('milliseconds', now()) + interval '1 millisecond' AS "begunAt", p.timezone, p.week_starts AS "weekStarts"
    FROM cohorts AS c JOIN projects AS p ON p.id = c.project_id LEFT JOIN cohort_refreshes AS r ON r.cohort_id = c.id
    WHERE CASE WHEN c.deleted THEN r.cohort_id IS NOT NULL ELSE coalesce(r.refreshed_at IS NULL AND r.error = '', true) OR c.refresh_requested_at > r.tried_at
      OR r.tried_at < now() - greatest(${REFRESH_S}, r.took / 1000.0 * ${PAUSES}) * interval '1 second' END
    ORDER BY c.refresh_requested_at > coalesce(r.tried_at, '-infinity') DESC NULLS LAST, r.tried_at NULLS FIRST, c.id LIMIT 1`
  return due
}

/** Lets cohorts be refreshed at once whose members are not in this ClickHouse: it may be another one since. */
async function askForLost ({ sql, clickhouse }: CohortDeps): Promise<true> {
  const found = await queryRows<{ id: number }>(clickhouse, 'SELECT DISTINCT cohort_id AS id FROM cohort_members')
  await sql`
    UPDATE cohort_refreshes SET tried_at = '-infinity'
    WHERE refreshed_at IS NOT NULL AND NOT cohort_id = ANY (${found.map(({ id }) => id)}::integer[])`
  return true
}

export function createListCohorts (deps: CohortDeps): ListWindowTasks {
  const { sql, logger } = deps

  async function refreshAll (signal: AbortSignal): Promise<undefined> {
    for (let due = await findDue(sql); due !== undefined; due = await findDue(sql)) {
      signal.throwIfAborted()
      const { id, deleted, begunAt } = due
      if (deleted) {
        await dropCohort(id, deps)
        continue
      }
      const startedAt = performance.now()
      // Before it begins, so that it is due again if persons are repaired meanwhile.
      await sql`
        INSERT INTO cohort_refreshes (cohort_id, tried_at) VALUES (${id}, ${begunAt}) ON CONFLICT (cohort_id) DO UPDATE SET tried_at = excluded.tried_at`
      try {
        await refreshCohort(due, deps, signal)
      } catch (err) {
        if (signal.aborted) throw err
        logger.warn({ err, cohort: id }, 'could not refresh a cohort; keeping its previous members')
        const error = (err instanceof Error && err.message !== '' ? err.message : String(err)).slice(0, MAX_ERROR_LENGTH)
        const took = Math.round(performance.now() - startedAt)
        await sql`UPDATE cohort_refreshes SET took = ${took}, error = ${error} WHERE cohort_id = ${id}`
      }
    }
  }

  let isChecked = false
  return async () => {
    isChecked ||= await askForLost(deps)
    return await findDue(sql) === undefined
      ? []
      : [{ subject: 'cohorts', size: 'day', since: new Date(0), beside: refreshAll }]
  }
}
