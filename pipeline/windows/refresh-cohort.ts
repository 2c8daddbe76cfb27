import { pipeline } from 'node:stream/promises'
import { type Calendar, resolveRange } from '../../engines/questions/calendar.ts'
import { expandCohorts, hasBehavior, readCohort } from '../../engines/questions/cohort-definition.ts'
import { compileCohort, takesCopies } from '../../engines/questions/cohort-sql.ts'
import { type Cell, compilePersons } from '../../engines/questions/compile-question.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readKeptFrom } from '../../platform/retention-rules.ts'
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
  /** When this refresh began, by the clock of Postgres: requests and deletions are compared with it. */
  begunAt: Date
}

const NOBODY = "toUUID('00000000-0000-0000-0000-000000000000')"

/** How long a version is kept after a newer one, for queries that run and for the persons behind answers of before. */
const KEPT_MS = 600_000

/** Of a query for members: as long as analysts have. One core leaves the others to inserts. */
const SETTINGS = { max_execution_time: 55, max_memory_usage: '4000000000', max_threads: 1, do_not_merge_across_partitions_select_final: 1 } as const

const MAX_PEOPLE = 10_000_000

/** Deleted persons that are looked for, as they are sent in the URL; of more, some are taken for members. */
const MAX_DELETED = 1000

/**
 * Finds the members of a cohort anew, as of now. They replace the former ones at once: in ClickHouse with the end of
 * one insert, in Postgres, where flags look them up, in one transaction.
 *
 * @throws when they cannot be found; the former ones stay.
 */
export async function refreshCohort (cohort: Cohort, deps: CohortDeps, signal: AbortSignal): Promise<void> {
  const { sql, clickhouse, database } = deps
  const { id, projectId, begunAt } = cohort
  const startedAt = performance.now()
  const version = begunAt.getTime()
  const own = `project_id = ${projectId} AND cohort_id = ${id}`
  await dropOld(id, version, own, deps)
  if (cohort.isStatic) await copyList(cohort, version, deps)
  else {
    const { query, final } = await compile(cohort, version, deps)
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
  const isLookedUp = !cohort.isStatic && (cohort.question !== null || hasBehavior(cohort.filters))
  await sql.begin(async (transaction) => {
    if (isLookedUp) await replacePeople(transaction, cohort, version, { clickhouse, own })
    const isLate = await hasDeleted(transaction, cohort, { clickhouse, own: `${own} AND version = ${version}` })
    if (isLate) throw new Error('members were deleted meanwhile; it is tried again')
    // Flags that name it can be computed from the first time on.
    await transaction`
      SELECT raise_flag_revision(${projectId}) WHERE NOT EXISTS (SELECT FROM cohort_refreshes WHERE cohort_id = ${id} AND refreshed_at IS NOT NULL)`
    const took = Math.round(performance.now() - startedAt)
    await transaction`
      UPDATE cohort_refreshes SET refreshed_at = ${begunAt}, people = ${stored.people}, took = ${took}, error = '' WHERE cohort_id = ${id}`
  }).catch(async (error: unknown) => {
    await dropVersions(id, [String(version)], deps)
    throw error
  })
}

/** Whether a version has persons whose deletion was done before it was inserted, and so has not seen its rows. */
async function hasDeleted (
  transaction: TransactionSql, { projectId, begunAt }: Cohort,
  { clickhouse, own }: { clickhouse: ClickHouse, own: string }
): Promise<boolean> {
  const deleted = await transaction<{ uuid: string }[]>`
    SELECT DISTINCT unnest(person_uuids)::text AS uuid FROM person_deletions WHERE project_id = ${projectId} AND done_at > ${begunAt} LIMIT ${MAX_DELETED}`
  if (deleted.length === 0 || deleted.length === MAX_DELETED) return deleted.length > 0
  return (await queryRows(clickhouse, `SELECT 1 FROM cohort_members WHERE ${own} AND person_id IN {uuids: Array(UUID)} LIMIT 1`, { uuids: deleted.map(({ uuid }) => uuid) })).length > 0
}

/** Drops versions that a newer one replaced long ago, and those that were never whole, such as of failed refreshes. */
async function dropOld (id: number, now: number, own: string, deps: CohortDeps): Promise<void> {
  const old = await queryRows<{ version: string }>(deps.clickhouse, `
    SELECT version FROM cohort_members WHERE ${own} AND version < ${now - KEPT_MS}
    GROUP BY version ORDER BY count() >= max(size) DESC, version DESC LIMIT 1, 1000`)
  await dropVersions(id, old.map(({ version }) => version), deps)
}

/** The query of a cohort's persons, and whether copies of events must be left out. */
async function compile (
  { filters, question, projectId, ...calendar }: Cohort, now: number, { sql, clickhouse }: CohortDeps
): Promise<{ query: string, final: 0 | 1 }> {
  if (question !== null) {
    const asked = readQuestion(question.definition)
    const keptFrom = await readKeptFrom({ sql, clickhouse }, projectId, now)
    const range = resolveRange(asked, { ...calendar, now, keptFrom })
    const persons = compilePersons(asked, question.place, { projectId, range, limit: MAX_PEOPLE })
    return { query: `SELECT toUUID(person_id) AS person FROM (\n${persons}\n)`, final: 1 }
  }
  const others = await sql<{ id: number, filters: unknown }[]>`
    SELECT id, CASE WHEN question IS NULL THEN filters END AS filters FROM cohorts WHERE project_id = ${projectId} AND NOT deleted`
  const byId = new Map(others.map((other) => [other.id, other.filters]))
  const node = expandCohorts(readCohort(filters), (id) => byId.get(id), [calendar.id])
  const query = compileCohort(node, { projectId, now, timezone: calendar.timezone })
  return { query, final: takesCopies(node) ? 0 : 1 }
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
