import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { IntervalLoop } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { listPromotions } from '../../platform/query-log/promoted-column.ts'
import { type LoggedQueries, readQueryLog } from '../../platform/query-log/read-query-log.ts'
import { startRounds } from '../periodic-rounds.ts'
import { compareClocks, forgetFuture } from './clocks.ts'
import { type NamedDefinition, nameDefinitions, type PropertyColumns, propertyColumns, type UsageKind, type Vocabulary } from '../../platform/query-log/named-definitions.ts'

/** What one count did. `no_log`: ClickHouse has no query log that this user may read; earlier counts stay. */
export type UsageOutcome = { kind: 'skipped' } | { kind: 'no_log' } | { kind: 'done', queries: number, named: number, unread: UnreadQueries }

/** Texts that could not be read because of a bug of ours, and the first error: they are left out of the counts. */
export interface UnreadQueries { count: number, err?: unknown }

/** Interval of counting. ClickHouse writes its query log every 7.5 s; a count reads two days of it. */
const INTERVAL_MS = 60_000

/** Key of the advisory lock that admits one counting process at a time. Arbitrary; must never change. */
const USAGE_LOCK = 4_725_374

/** Days that `query_usage_30_day` covers, today included. */
const DAYS = 30

/** Name of the row of `roll_up_state` with the time of the last count. */
const SOURCE = 'query usage'

const DAY_MS = 86_400_000
const ROWS_PER_INSERT = 2000

/**
 * Counts once a minute how often analysts' queries named events and properties. Every pipeline process runs this; a
 * lock in Postgres admits one at a time. Events do not wait for it: while it fails, the counts are stale.
 */
export function startQueryUsage ({ metrics, logger, ...stores }: {
  clickhouse: ClickHouse, sql: Sql, cluster: string, metrics: Metrics, logger: Logger
}): IntervalLoop {
  let lastOutcome = ''
  return startRounds({
    everyMs: INTERVAL_MS,
    logger,
    failure: 'could not count query usage; retrying',
    rounds: metrics.counter('query_usage_rounds_total', 'Rounds of counting query usage, by outcome.', { outcome: ['done', 'skipped', 'no_log', 'failed'] }),
    async round () {
      const outcome = await countQueryUsage(stores, { minPauseMs: INTERVAL_MS / 2 })
      const { kind } = outcome
      if (kind === 'done' && outcome.unread.count > 0) {
        logger.error({ err: outcome.unread.err, queries: outcome.unread.count }, 'queries of analysts could not be read; they are not counted as usage')
      }
      if (kind === 'no_log' && lastOutcome !== kind) logger.warn('clickhouse has no query log that this user may read; query usage is not counted')
      lastOutcome = kind
      return kind
    }
  })
}

/**
 * Counts how often SELECTs of analysts named the definitions, and writes `query_usage_30_day` of all definitions.
 *
 * Counts whole days, from the day before the last count on: repeating it changes nothing, and queries logged late are
 * found. A day's count never shrinks, because logs lose their oldest rows. A value that a user wrote stays until a
 * query names the definition after that.
 *
 * @param options.minPauseMs  Skip when a count of any process ended less than this long ago.
 * @throws when a store is unavailable. Nothing has changed then.
 */
export async function countQueryUsage (
  stores: { clickhouse: ClickHouse, sql: Sql, cluster?: string }, options: { minPauseMs: number }
): Promise<UsageOutcome> {
  return await stores.sql.begin(async (sql): Promise<UsageOutcome> => {
    const [lock] = await sql<{ locked: boolean }[]>`SELECT pg_try_advisory_xact_lock(${USAGE_LOCK}) AS locked`
    if (lock?.locked !== true) return { kind: 'skipped' }
    const [state] = await sql<{ age_ms: number }[]>`
      SELECT abs(extract(epoch FROM clock_timestamp() - read_up_to) * 1000)::float8 AS age_ms
      FROM roll_up_state WHERE source = ${SOURCE}`
    if (state !== undefined && state.age_ms < options.minPauseMs) return { kind: 'skipped' }
    const days = state === undefined ? DAYS : Math.min(DAYS, Math.ceil(state.age_ms / DAY_MS) + 1)
    const log = await readQueryLog(stores.clickhouse, { days, cluster: stores.cluster ?? '' })
    if (log === undefined) return { kind: 'no_log' }

    await forgetFuture(sql)
    const { clockLeadMs } = await compareClocks(stores.clickhouse, sql)
    const columns = propertyColumns(await listPromotions(stores.clickhouse))
    const { queries, rows, unread } = await countNames(log, await loadVocabulary(sql), columns)
    for (let from = 0; from < rows.length; from += ROWS_PER_INSERT) {
      await writeCounts(sql, rows.slice(from, from + ROWS_PER_INSERT), clockLeadMs)
    }
    await sql`DELETE FROM query_usage WHERE day < (now() AT TIME ZONE 'UTC')::date - ${DAYS}::integer`
    await sql.unsafe(sumUsage('event_definitions', "'event'"))
    // A group property counts for each group type that has one of the name: queries name no type.
    await sql.unsafe(sumUsage('property_definitions', "definition.type || '_property'"))
    await sql`INSERT INTO roll_up_state (source, read_up_to) VALUES (${SOURCE}, clock_timestamp())
      ON CONFLICT (source) DO UPDATE SET read_up_to = excluded.read_up_to`
    return { kind: 'done', queries, named: rows.length, unread }
  })
}

interface UsageRow extends NamedDefinition {
  day: string
  queries: number
  /** Time of the latest query, by ClickHouse's clock. */
  lastAtSeconds: number
}

/** A day's count never shrinks: a log that lost its oldest rows says nothing about them. */
async function writeCounts (sql: SqlTemplates, rows: readonly UsageRow[], clockLeadMs: number): Promise<void> {
  await sql`
    INSERT INTO query_usage AS known (project_id, what, name, day, queries, last_query_at)
    SELECT
      found."projectId", found.what, found.name, found.day, found.queries,
      to_timestamp(found."lastAtSeconds") - ${clockLeadMs}::bigint * interval '1 millisecond'
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) AS found
      ("projectId" integer, what text, name text, day date, queries bigint, "lastAtSeconds" bigint)
    JOIN projects ON projects.id = found."projectId"
    ON CONFLICT (project_id, what, name, day) DO UPDATE SET
      queries = excluded.queries, last_query_at = greatest(known.last_query_at, excluded.last_query_at)
    WHERE known.queries < excluded.queries`
}

/**
 * The statement that writes the sums of a table of definitions; those that no query names any more go back to 0. Skips
 * rows that would not change. A value that a user wrote stays until a query names the definition in a later second: the
 * query log has whole seconds.
 */
function sumUsage (table: string, what: string): string {
  return `
    UPDATE ${table} AS known SET query_usage_30_day = counted.queries, query_usage_written_at = NULL
    FROM (
      SELECT definition.id, coalesce(sum(usage.queries), 0) AS queries, max(usage.last_query_at) AS last_query_at
      FROM ${table} AS definition
      LEFT JOIN query_usage AS usage ON usage.project_id = definition.project_id AND usage.what = ${what}
        AND usage.name = definition.name AND usage.day > (now() AT TIME ZONE 'UTC')::date - ${DAYS}
      GROUP BY definition.id
    ) AS counted
    WHERE known.id = counted.id AND CASE
      WHEN known.query_usage_written_at IS NULL THEN known.query_usage_30_day <> counted.queries
      ELSE counted.last_query_at > date_trunc('second', known.query_usage_written_at)
    END`
}

/** Counts by day and definition. A query that cannot be read stops no other. */
export async function countNames (
  log: AsyncIterable<LoggedQueries>, vocabulary: Vocabulary, columns: PropertyColumns
): Promise<{ queries: number, rows: UsageRow[], unread: UnreadQueries }> {
  const counts = new Map<string, UsageRow>()
  const unread: UnreadQueries = { count: 0 }
  let queries = 0
  for await (const { day, query, count, lastAtSeconds } of log) {
    let named: NamedDefinition[]
    try {
      named = nameDefinitions(query, vocabulary, columns)
    } catch (err) {
      unread.err ??= err
      unread.count += count
      continue
    }
    queries += count
    for (const definition of named) {
      const key = JSON.stringify([day, definition.what, definition.projectId, definition.name])
      const row = counts.get(key)
      if (row === undefined) {
        counts.set(key, { ...definition, day, queries: count, lastAtSeconds })
      } else {
        row.queries += count
        row.lastAtSeconds = Math.max(row.lastAtSeconds, lastAtSeconds)
      }
    }
  }
  return { queries, unread, rows: [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row) }
}

async function loadVocabulary (sql: SqlTemplates): Promise<Vocabulary> {
  const rows = await sql<{ what: UsageKind, name: string, projects: number[] }[]>`
    SELECT 'event' AS what, name, array_agg(project_id) AS projects FROM event_definitions
    WHERE deleted_at IS NULL GROUP BY name
    UNION ALL
    SELECT type || '_property', name, array_agg(DISTINCT project_id) FROM property_definitions
    WHERE deleted_at IS NULL GROUP BY type, name`
  const known = (what: UsageKind): Map<string, Set<number>> =>
    new Map(rows.filter((row) => row.what === what).map(({ name, projects }) => [name, new Set(projects)]))
  return {
    event: known('event'),
    event_property: known('event_property'),
    person_property: known('person_property'),
    group_property: known('group_property')
  }
}
