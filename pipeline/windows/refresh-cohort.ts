import { pipeline } from 'node:stream/promises'
import { type Calendar, resolveRange } from '../../engines/questions/calendar.ts'
import { expandCohorts, hasBehavior, readCohort } from '../../engines/questions/cohort-definition.ts'
import { compileCohort, takesCopies } from '../../engines/questions/cohort-sql.ts'
import { type Cell, compilePersons } from '../../engines/questions/compile-question.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'

export interface CohortDeps {
  sql: Sql
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  /** The database of the tables of one node, which every node has whole. */
  database: string
  logger: Logger
}

export interface Cohort extends Calendar {
  id: number
  projectId: number
  filters: unknown
  /** A number, as the API stored it. */
  question: { definition: unknown, place: Cell } | null
  isStatic: boolean
  deleted: boolean
}

const NOBODY = "toUUID('00000000-0000-0000-0000-000000000000')"

/** A version is dropped when no query can read it any more; queries take a minute at most. */
const KEPT_MS = 600_000

/** Of a query for members: as long as analysts have. One core leaves the others to inserts. */
const SETTINGS = { max_execution_time: 55, max_memory_usage: '4000000000', max_threads: 1, do_not_merge_across_partitions_select_final: 1 } as const

const MAX_PEOPLE = 10_000_000

/**
 * Finds the members of a cohort anew, as of now. They replace the former ones at once: in ClickHouse with the end of
 * one insert, in Postgres, where flags look them up, in one transaction.
 *
 * @throws when they cannot be found; the former ones stay.
 */
export async function refreshCohort (cohort: Cohort, deps: CohortDeps, signal: AbortSignal): Promise<void> {
  const { sql, clickhouse, database } = deps
  const { id, projectId } = cohort
  const startedAt = performance.now()
  const version = Date.now()
  const own = `project_id = ${projectId} AND cohort_id = ${id}`
  if (cohort.isStatic) await copyList(cohort, version, deps)
  else {
    const { query, final } = await compile(cohort, version, sql)
    await clickhouse.command({
      query: `INSERT INTO "${database}".cohort_members (project_id, cohort_id, version, person_id, size)
SELECT ${projectId}, ${id}, ${version}, person, count() OVER () FROM (SELECT person FROM (
${query}
) UNION ALL SELECT ${NOBODY})`,
      clickhouse_settings: { ...SETTINGS, final }, abort_signal: signal
    })
  }
  const [stored] = await queryRows<{ rows: string, size: string, people: string }>(clickhouse, `
    SELECT count() AS rows, max(size) AS size, countIf(person_id != ${NOBODY}) AS people FROM cohort_members WHERE ${own} AND version = ${version}`)
  if (stored === undefined || stored.rows !== stored.size) throw new Error('the members have not been copied to every node yet')
  // A deletion that was done before the insert has not seen its rows.
  const deletions = await sql`SELECT FROM person_deletions WHERE project_id = ${projectId} AND done_at > ${new Date(version)} LIMIT 1`
  if (deletions.length > 0) {
    await dropVersions(id, [String(version)], deps)
    throw new Error('persons were deleted meanwhile; it is tried again')
  }
  const isLookedUp = !cohort.isStatic && (cohort.question !== null || hasBehavior(cohort.filters))
  await sql.begin(async (transaction) => {
    if (isLookedUp) await replacePeople(transaction, cohort, version, { clickhouse, own })
    const took = Math.round(performance.now() - startedAt)
    await transaction`
      INSERT INTO cohort_refreshes (cohort_id, refreshed_at, people, took, tried_at) VALUES (${id}, ${new Date(version)}, ${stored.people}, ${took}, ${new Date(version)})
      ON CONFLICT (cohort_id) DO UPDATE SET refreshed_at = excluded.refreshed_at, people = excluded.people, took = excluded.took, tried_at = excluded.tried_at, error = ''`
  })
  const old = await queryRows<{ version: string }>(clickhouse,
    `SELECT DISTINCT version FROM cohort_members WHERE ${own} AND version < ${version - KEPT_MS}`)
  await dropVersions(id, old.map((each) => each.version), deps)
}

/** The query of a cohort's persons, and whether copies of events must be left out. */
async function compile (
  { filters, question, projectId, ...calendar }: Cohort, now: number, sql: Sql
): Promise<{ query: string, final: 0 | 1 }> {
  if (question !== null) {
    const asked = readQuestion(question.definition)
    const range = resolveRange(asked, { ...calendar, now })
    const persons = compilePersons(asked, question.place, { projectId, range, limit: MAX_PEOPLE })
    return { query: `SELECT toUUID(person_id) AS person FROM (\n${persons}\n)`, final: 1 }
  }
  const others = await sql<{ id: number, filters: unknown }[]>`
    SELECT id, CASE WHEN question IS NULL THEN filters END AS filters FROM cohorts WHERE project_id = ${projectId} AND NOT deleted`
  const byId = new Map(others.map((other) => [other.id, other.filters]))
  const node = expandCohorts(readCohort(filters), (id) => byId.get(id), [calendar.id])
  return { query: compileCohort(node, { projectId, now }), final: takesCopies(node) ? 0 : 1 }
}

/** Copies a list of persons that the API made. */
async function copyList (
  { id, projectId }: Cohort, version: number, { sql, clickhouse, database }: CohortDeps
): Promise<void> {
  await sql.begin(async (transaction) => {
    const values = await transaction.copyTo(`COPY (
      SELECT ${projectId}, ${id}, ${version}::bigint, person, count(*) OVER () FROM (
        SELECT p.uuid AS person FROM cohort_members AS m JOIN persons AS p ON p.id = m.person_id WHERE m.cohort_id = ${id}
        UNION ALL SELECT '00000000-0000-0000-0000-000000000000'
      ) AS members) TO STDOUT`)
    await clickhouse.insert({ table: `"${database}".cohort_members`, values, format: 'TabSeparated', clickhouse_settings: { async_insert: 0 } })
  })
}

/** Replaces the members that flags look up by those of a version. What stays is not written again. */
async function replacePeople (
  transaction: TransactionSql, { id }: Cohort, version: number,
  { clickhouse, own }: { clickhouse: ClickHouse, own: string }
): Promise<void> {
  await transaction`CREATE TEMPORARY TABLE found (person uuid) ON COMMIT DROP`
  const isMember = `${own} AND version = ${version} AND person_id != ${NOBODY}`
  const { stream } = await clickhouse.exec({ query: `SELECT person_id FROM cohort_members WHERE ${isMember} FORMAT TabSeparated` })
  await pipeline(stream, await transaction.copyFrom('COPY found FROM STDIN'))
  await transaction`ANALYZE found`
  await transaction`
    DELETE FROM cohort_people AS c WHERE cohort_id = ${id} AND NOT EXISTS (SELECT FROM found AS f WHERE f.person = c.person)`
  await transaction`
    INSERT INTO cohort_people (cohort_id, person) SELECT ${id}, person FROM found AS f
    WHERE NOT EXISTS (SELECT FROM cohort_people AS c WHERE c.cohort_id = ${id} AND c.person = f.person) ORDER BY person`
}

async function dropVersions (
  id: number, versions: readonly string[], { clickhouse, database }: CohortDeps
): Promise<void> {
  for (const version of versions) {
    await clickhouse.command({ query: `ALTER TABLE "${database}".cohort_members DROP PARTITION (${id}, ${version})` })
  }
}

/** Removes the members of a cohort that was deleted. */
export async function dropCohort (id: number, deps: CohortDeps): Promise<void> {
  const versions = await queryRows<{ version: string }>(deps.clickhouse, `SELECT DISTINCT version FROM cohort_members WHERE cohort_id = ${id}`)
  await dropVersions(id, versions.map(({ version }) => version), deps)
  await deps.sql`DELETE FROM cohort_people WHERE cohort_id = ${id}`
  await deps.sql`DELETE FROM cohort_refreshes WHERE cohort_id = ${id}`
}
