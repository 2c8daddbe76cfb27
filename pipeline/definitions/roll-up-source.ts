import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { SqlTemplates } from '../../platform/postgres/connect-postgres.ts'

/** Stores of a round; Postgres within its transaction. */
export interface RollUpStores {
  clickhouse: ClickHouse
  sql: SqlTemplates
}

/** What bounds the definitions of each project. */
export interface DefinitionLimits {
  /** New ones on a day, in UTC. */
  events: number
  properties: number
  pairs: number
  /** Days after its last event when a definition is pruned; 0: never. */
  retentionDays: number
}

/** A table of counts in ClickHouse and its table of definitions in Postgres. */
interface RollUpSource {
  limit: keyof Omit<DefinitionLimits, 'retentionDays'>
  /** Columns of the key by which pages follow each other, in order. */
  key: readonly [string, ...string[]]
  /** Query of a page of what changed since a time, in absolute values. */
  read: string
  /** Statement that writes it. Parameters: the rows as JSON, the time of ClickHouse's clock in epoch ms, day, limit. */
  upsert: string
  /** Statement that removes definitions no longer seen. Parameters: project, days, maximum number kept. */
  prune: string
}

/** All that is rolled up, in this order. */
export const ROLL_UP_SOURCES: readonly RollUpSource[] = [
  {
    limit: 'events',
    key: ['project_id', 'name'],
    read: readSql(import.meta.dirname, 'read-event-volumes.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-definitions.sql'),
    prune: prune('event_definitions', `
      tags = '{}' AND description = '' AND owner_id IS NULL AND NOT verified AND NOT hidden AND NOT post_to_slack
      AND created_by IS NULL AND query_usage_30_day = 0
      AND volume_written_at IS NULL AND last_seen_written_at IS NULL AND query_usage_written_at IS NULL`)
  },
  {
    limit: 'properties',
    key: ['project_id', 'kind', 'group_type', 'name'],
    read: readSql(import.meta.dirname, 'read-changed-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-property-definitions.sql'),
    prune: prune('property_definitions', `
      tags = '{}' AND description = '' AND owner_id IS NULL AND NOT verified AND NOT hidden
      AND NOT property_type_is_manual AND query_usage_30_day = 0 AND renamed_at IS NULL AND query_usage_written_at IS NULL`)
  },
  {
    limit: 'pairs',
    key: ['project_id', 'event_key', 'property'],
    read: readSql(import.meta.dirname, 'read-changed-event-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-properties.sql'),
    prune: prune('event_properties', 'true')
  }
]

/**
 * The statement that removes definitions no longer seen. $1: the project. $2: for how many days rows are kept. $3: how
 * many are kept of those that were not seen for a week; the ones seen last stay.
 *
 * What somebody changed or queries name stays, and what no event has made. It comes back with its next event, created
 * when its first event occurred: nothing but its id is lost. A deletion is forgotten, too, as old events are not read
 * again.
 */
function prune (table: string, isUntouched: string): string {
  return `
    WITH ranked AS (
      SELECT ctid, last_arrived_at, row_number() OVER (ORDER BY last_arrived_at DESC) AS place,
        (${isUntouched}) AS is_untouched
      FROM ${table} WHERE project_id = $1 AND last_arrived_at IS NOT NULL
    )
    DELETE FROM ${table} AS pruned USING ranked
    WHERE pruned.ctid = ranked.ctid AND ranked.is_untouched
      AND (ranked.last_arrived_at < now() - $2::integer * interval '1 day'
        OR (ranked.place > $3::bigint AND ranked.last_arrived_at < now() - interval '7 days'))`
}

/** Maximum rows that are read at once: a megabyte. */
export const ROWS_PER_PAGE = 10_000

/** Maximum rows of one statement in Postgres. */
const ROWS_PER_UPSERT = 2000

/** Days' worth of new definitions that a project keeps if they are not seen for a week. */
const KEPT_DAYS = 10

/** What a pass reads; times by ClickHouse's clock. */
export interface RollUpSpan {
  /** Changes from here on, epoch milliseconds; 0 for everything. */
  since: number
  nowMs: number
  /** Such as 2026-01-31. */
  today: string
  /** How far the clock of ClickHouse is ahead of that of Postgres, in milliseconds. */
  clockLeadMs: number
  /** One project; null: all but `except`. */
  project: number | null
  except: readonly number[]
}

/** The key of a row, in the order of the source's columns. */
export type RowKey = readonly (string | number)[]

export interface RolledUpPage {
  rows: number
  /** Key of the last row; null: there are no further ones. */
  next: RowKey | null
  /** Projects with new definitions beyond the limit of the day. */
  beyond: readonly number[]
}

const LAST_PROJECT = 2 ** 32 - 1

/** Copies one page of a source to its definitions: what comes after the key. */
export async function rollUpPage (
  { source, after, span, limits }: {
    source: RollUpSource, after: RowKey | null, span: RollUpSpan, limits: DefinitionLimits
  },
  { clickhouse, sql }: RollUpStores
): Promise<RolledUpPage> {
  const key = after ?? source.key.map((_, index) => index === 0 ? 0 : '')
  const rows = await queryRows<Record<string, string | number>>(clickhouse, source.read, {
    since: span.since, clock_lead_ms: span.clockLeadMs, limit: ROWS_PER_PAGE,
    first_project: span.project ?? 0, last_project: span.project ?? LAST_PROJECT, except: [...span.except],
    ...Object.fromEntries(key.map((value, index) => [`after_${index + 1}`, value]))
  })
  const beyond: number[] = []
  for (let from = 0; from < rows.length; from += ROWS_PER_UPSERT) {
    const some = JSON.stringify(rows.slice(from, from + ROWS_PER_UPSERT))
    const answer = await sql.unsafe<{ project_id: number }[]>(
      source.upsert, [some, span.nowMs, span.today, limits[source.limit]])
    beyond.push(...answer.map((row) => row.project_id))
  }
  const last = rows.length < ROWS_PER_PAGE ? undefined : rows.at(-1)
  return { rows: rows.length, next: last === undefined ? null : source.key.map((column) => last[column] ?? ''), beyond }
}

/** Removes definitions of a project that are not seen any more. Call it after everything of the project was read. */
export async function pruneDefinitions (sql: SqlTemplates, projectId: number, limits: DefinitionLimits): Promise<void> {
  if (limits.retentionDays === 0) return
  for (const { prune, limit } of ROLL_UP_SOURCES) {
    await sql.unsafe(prune, [projectId, limits.retentionDays, KEPT_DAYS * limits[limit]])
  }
}

/** The text of a .sql file beside the module that runs it; `folder` is the `import.meta.dirname` of that module. */
export function readSql (folder: string, name: string): string {
  return readFileSync(path.join(folder, name), 'utf8')
}
