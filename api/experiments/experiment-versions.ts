/** What a launched experiment measures: kept at the launch, and with every change until its end. */
import type { Sql, SqlTemplates, Statement, TransactionSql } from '../../platform/postgres/connect-postgres.ts'

/** What was kept of the flag. `filters` have its variants, their shares, and its conditions. */
export interface KeptFlag {
  key: string
  active: boolean
  filters: unknown
}

/** A change of what an experiment measures; the first one is the launch. */
export interface KeptChange {
  at: Date
  fields: string[]
}

/** Of an experiment, the first version and the newest ones are kept, up to this number and size. */
const MAX_VERSIONS = 500
const MAX_BYTES = 10_000_000

const SHOWN_CHANGES = 20

/** The newest version of an experiment, for a query that has its id. */
function selectNewest (sql: SqlTemplates, id: Statement): Statement {
  return sql`SELECT v.* FROM experiment_versions v WHERE v.experiment_id = ${id} ORDER BY v.version DESC LIMIT 1`
}

/**
 * Keeps what launched experiments measure now, if it is not what was kept last. An experiment that has ended keeps the
 * flag that it had; its own fields are its own, and a change of these is kept after the end, too.
 *
 * @param which  One experiment, or all on a flag.
 */
export async function keepVersions (
  tx: TransactionSql, which: { experimentId: number } | { flagId: number }
): Promise<void> {
  const chosen = 'flagId' in which ? tx`e.feature_flag_id = ${which.flagId}` : tx`e.id = ${which.experimentId}`
  await tx`
    INSERT INTO experiment_versions (experiment_id, version, flag, parameters, filters, secondary_metrics)
    SELECT e.id, coalesce(kept.version, 0) + 1, flag.now, e.parameters, e.filters, e.secondary_metrics
    FROM experiments e
    JOIN feature_flags f ON f.id = e.feature_flag_id
    LEFT JOIN LATERAL (${selectNewest(tx, tx`e.id`)}) AS kept ON true
    CROSS JOIN LATERAL (SELECT CASE WHEN e.end_date <= now() AND kept.flag IS NOT NULL THEN kept.flag
      ELSE jsonb_build_object('key', f.key, 'active', f.active, 'filters', f.filters) END AS now) AS flag
    WHERE ${chosen} AND NOT e.deleted AND e.start_date IS NOT NULL
      AND (flag.now, e.parameters, e.filters, e.secondary_metrics)
        IS DISTINCT FROM (kept.flag, kept.parameters, kept.filters, kept.secondary_metrics)`
  await tx`
    DELETE FROM experiment_versions WHERE (experiment_id, version) IN (
      SELECT experiment_id, version FROM (
        SELECT v.experiment_id, v.version, row_number() OVER newest AS place,
          sum(pg_column_size(v.*)) OVER newest AS bytes
        FROM experiment_versions v JOIN experiments e ON e.id = v.experiment_id
        WHERE ${chosen} WINDOW newest AS (PARTITION BY v.experiment_id ORDER BY v.version DESC)
      ) AS kept
      WHERE version > 1 AND place > 1 AND (place > ${MAX_VERSIONS} OR bytes > ${MAX_BYTES})
    )`
}

/** Forgets what was kept of an experiment that is a draft again: its next launch is the first. */
export async function forgetVersions (tx: TransactionSql, experimentId: number): Promise<void> {
  await tx`DELETE FROM experiment_versions WHERE experiment_id = ${experimentId}`
}

/** The flag of an experiment as it was kept last; undefined for one that was never launched. */
export async function findKeptFlag (sql: SqlTemplates, experimentId: number): Promise<KeptFlag | undefined> {
  const [newest] = await sql<{ flag: KeptFlag }[]>`SELECT kept.flag FROM (${selectNewest(sql, sql`${experimentId}::integer`)}) AS kept`
  return newest?.flag
}

/** When what an experiment measures was changed, newest first, and which of its fields. */
export async function listKeptChanges (sql: Sql, experimentId: number): Promise<KeptChange[]> {
  return await sql<KeptChange[]>`
    SELECT created_at AS at, to_jsonb(array_remove(ARRAY[
      CASE WHEN flag <> lag(flag) OVER versions THEN 'feature_flag' END,
      CASE WHEN parameters <> lag(parameters) OVER versions THEN 'parameters' END,
      CASE WHEN filters <> lag(filters) OVER versions THEN 'filters' END,
      CASE WHEN secondary_metrics <> lag(secondary_metrics) OVER versions THEN 'secondary_metrics' END], NULL)) AS fields
    FROM experiment_versions WHERE experiment_id = ${experimentId}
    WINDOW versions AS (ORDER BY version) ORDER BY version DESC LIMIT ${SHOWN_CHANGES}`
}
