import { type ClickHouseClient } from '@clickhouse/client'

const VIEW = /^(?:CREATE MATERIALIZED VIEW IF NOT EXISTS|ALTER TABLE) (\w+_view)\b/m

/** Name of the materialized view that a migration creates or alters; null when it does neither. */
export function findMaterializedView (sql: string): string | null {
  return VIEW.exec(sql)?.[1] ?? null
}

/**
 * Attaches a materialized view again that was just created or altered, as a restart of the server would.
 *
 * A view passes on a token of its own for each insert. ClickHouse (26.7) makes it from other names before the first
 * restart than after it: an insert that was stored by the view before a crash, and is repeated after it, would be
 * counted twice. Only done while no event is stored: the view misses what is inserted meanwhile.
 *
 * @param onCluster  `ON CLUSTER …`, or an empty text for one node.
 */
export async function reattachViews (client: ClickHouseClient, view: string, onCluster: string): Promise<void> {
  const events = await client.query({ query: 'SELECT 1 FROM events LIMIT 1', format: 'JSONEachRow' })
  if ((await events.json()).length > 0) return
  await client.command({ query: `DETACH TABLE ${view} ${onCluster} SYNC` })
  await client.command({ query: `ATTACH TABLE ${view} ${onCluster}` })
}

/** Attaches a view that a killed migration left detached; a server that starts does so by itself. */
export async function attachLeftOver (client: ClickHouseClient, view: string, onCluster: string): Promise<void> {
  const detached = await client.query({
    query: 'SELECT 1 FROM system.detached_tables WHERE database = currentDatabase() AND table = {view: String}',
    query_params: { view },
    format: 'JSONEachRow'
  })
  if ((await detached.json()).length > 0) await client.command({ query: `ATTACH TABLE ${view} ${onCluster}` })
}
