/** Where the tables live: on one node, or replicated on the nodes of a cluster. */
export interface ClickHouseTopology {
  /** Name of the cluster in the server's `remote_servers`; absent for one node. */
  cluster?: string
}

/**
 * How many inserted blocks each table remembers to recognise a repeated insert. An insert counts one block for each
 * month it touches; 100,000 blocks at two inserts a second are more than half a day.
 * A replicated table also forgets by time: seven days instead of the server's default of one hour.
 */
const WINDOW_BLOCKS = 100_000
const WINDOW_SECONDS = 604_800

/**
 * Fills in the placeholders of `schema/clickhouse/*.sql`, which are the same for one node and for a cluster:
 * `{{on_cluster}}`, `{{replicated}}` (prefix of the engine's name), `{{deduplication_window}}` (table settings) and
 * `{{every_node}}` (engine arguments: a small table that every node holds whole, so that any shard can join it).
 */
export function renderClickHouseSql (sql: string, { cluster }: ClickHouseTopology): string {
  const values: Record<string, string> = {
    on_cluster: cluster === undefined ? '' : `ON CLUSTER '${cluster.replaceAll(/['\\]/g, '\\$&')}'`,
    replicated: cluster === undefined ? '' : 'Replicated',
    every_node: cluster === undefined ? '' : "'/clickhouse/tables/{uuid}/all', '{shard}-{replica}', ",
    deduplication_window: cluster === undefined
      ? `non_replicated_deduplication_window = ${WINDOW_BLOCKS}`
      : `replicated_deduplication_window = ${WINDOW_BLOCKS}, replicated_deduplication_window_seconds = ${WINDOW_SECONDS}`
  }
  return sql.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`unknown placeholder {{${name}}} in a ClickHouse migration`)
    return value
  })
}
