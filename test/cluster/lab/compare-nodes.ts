/** What all nodes of the cluster have to agree on: tables and their replicas, and the events in them. */
import type { LabNode } from './start-lab.ts'

/** Asks one node. */
export type Ask = <T>(node: LabNode, query: string, as?: { user?: string, database?: string }) => Promise<T[]>

/** Of the tables of all shards. */
export const ALL = 'millrace_all'

/** @throws {Error} with what does not hold. */
export function expect (holds: boolean, what: string): void {
  if (!holds) throw new Error(what)
}

/** @returns how many there are. @throws {Error} for the first node that differs. */
export async function compareTables (nodes: readonly LabNode[], ask: Ask): Promise<string> {
  const tables = await Promise.all(nodes.map(async (node) => {
    const rows = await ask<{ name: string }>(node,
      `SELECT concat(database, '.', name) AS name FROM system.tables
       WHERE database IN ('millrace', 'millrace_all') AND NOT startsWith(name, '.') ORDER BY name`)
    return rows.map(({ name }) => name).join(' ')
  }))
  tables.forEach((text, index) => expect(text === tables[0], `${nodes[index]?.name} has other tables: ${text}`))
  for (const node of nodes) {
    const replicas = await ask<{ table: string, path: string, all: number, active: number }>(node,
      `SELECT table, zookeeper_path AS path, toUInt32(total_replicas) AS all, toUInt32(active_replicas) AS active
       FROM system.replicas WHERE database = 'millrace'`)
    const ofShard = nodes.filter(({ shard }) => shard === node.shard).length
    for (const { table, path: place, all, active } of replicas) {
      const wanted = place.startsWith('/clickhouse/tables/all/') ? nodes.length : ofShard
      expect(place.endsWith(`/millrace/${table}`), `${node.name} has ${table} at ${place}`)
      expect(all === wanted && active === wanted, `${node.name} knows ${active} of ${all} replicas of ${table}, which has ${wanted}`)
    }
  }
  return `${tables[0]?.split(' ').length} tables and views`
}

/** What each node counts over all shards. */
export async function audit (nodes: readonly LabNode[], ask: Ask, acknowledged: number): Promise<string> {
  for (const node of nodes) {
    const [row] = await ask<Record<'events' | 'uuids' | 'volumes' | 'properties', number>>(node, `
      SELECT toUInt32((SELECT count() FROM events WHERE project_id = 1 SETTINGS final = 0)) AS events,
        toUInt32((SELECT uniqExact(uuid) FROM events WHERE project_id = 1)) AS uuids,
        toUInt32((SELECT sum(volume) FROM event_volumes_by_day WHERE project_id = 1)) AS volumes,
        toUInt32((SELECT sum(count) FROM event_property_counts
          WHERE project_id = 1 AND kind = 'event' AND property = 'index')) AS properties`,
    { database: ALL })
    const counts = [row?.events, row?.uuids, row?.volumes, row?.properties]
    expect(counts.every((count) => count === acknowledged), `${node.name} counts ${counts.join(', ')} of ${acknowledged} events`)
  }
  // Each replica of a shard has its rows.
  for (const [shard, replicas] of Map.groupBy(nodes, (node) => node.shard)) {
    const counts = await Promise.all(replicas.map(async (node) =>
      (await ask<{ n: string }>(node, 'SELECT count() AS n FROM events SETTINGS final = 0'))[0]?.n))
    expect(new Set(counts).size === 1, `replicas of shard ${shard} have ${counts.join(' and ')} events`)
  }
  return `${acknowledged} events`
}
