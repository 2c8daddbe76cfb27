import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { SCHEMA_SEPARATOR } from '../../../schema/wire/ingestion-warnings.ts'
import { beginOf, countByDefinition, type CountedDefinition, type CountsQuery } from '../definition-counts.ts'

/** How many events of some days ingest held against a schema. */
export interface SchemaCounts {
  /** Id of the schema. */
  schema: number
  checked: number
  /** Of them, those that did not meet it, by what became of them. */
  kept: number
  quarantined: number
  rejected: number
}

const REASONS = ['schema_not_met', 'schema_quarantined', 'schema_rejected'] as const

/**
 * Counts the events that ingest held against schemas. Those that did not meet one were counted by ingest before it
 * answered; those that did are the stored events that say so. So an event that a client sent twice counts as often as
 * it failed, but once when it did not; one that was deleted later, only if it failed.
 *
 * @returns in the order of `schemas`; those that no event was held against are not in the list.
 */
export async function readSchemaCounts (
  clickhouse: ClickHouse, query: CountsQuery, schemas: readonly (CountedDefinition & { event: string })[]
): Promise<SchemaCounts[]> {
  if (schemas.length === 0) return []
  const [met, failed] = await Promise.all([
    queryRows<{ event: string, version: number, count: number }>(clickhouse, `
      SELECT event, schema_version AS version, toUInt32(count()) AS count
      FROM events
      WHERE project_id = {project: UInt32} AND event IN {names: Array(String)} AND schema_version > 0
        AND received_at >= toDateTime({from: UInt32}, 'UTC')
      GROUP BY event, version`, { project: query.projectId, from: beginOf(query), names: schemas.map(({ event }) => event) }),
    countByDefinition(clickhouse, query, { separator: SCHEMA_SEPARATOR, reasons: REASONS, definitions: schemas })
  ])
  return schemas.map(({ id, event, first_version: first }) => {
    const of = (reason: typeof REASONS[number]): number =>
      failed.find((each) => each.id === id && each.reason === reason)?.count ?? 0
    const [kept, quarantined, rejected] = REASONS.map(of) as [number, number, number]
    const own = met.filter((row) => row.event === event && row.version >= first)
    const checked = own.reduce((sum, { count }) => sum + count, kept + quarantined + rejected)
    return { schema: id, checked, kept, quarantined, rejected }
  }).filter(({ checked }) => checked > 0)
}
