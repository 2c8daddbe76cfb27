import { ClickHouseLogLevel, type ClickHouseSettings, createClient } from '@clickhouse/client'
import { databaseOfAllShards, ONLY_ACTIVE_NODES } from '../../schema/migrate/clickhouse-topology.ts'
import { quoteString } from 'chdb-server/sql-lexer'

export type ClickHouse = ReturnType<typeof createClient>

/** Marks our own queries in a query log, whatever login they run under. */
export const OUR_LOG_COMMENT = 'millrace'

/**
 * Inserts and reads through any node go to the first replica of each shard that answers, not to the node's
 * own copy: a reader sees what was confirmed, whatever another replica still lacks. One that came back is passed over
 * until it lacks at most the last second; where every replica lacks something, the one that lacks least answers.
 */
export const FIRST_REPLICA = {
  load_balancing: 'in_order', prefer_localhost_replica: '0', max_replica_delay_for_distributed_queries: '2'
} as const

/** A subquery on a table of all shards is answered once and sent to each of them; else it is refused. */
const ON_A_CLUSTER: ClickHouseSettings = {
  distributed_ddl_output_mode: ONLY_ACTIVE_NODES,
  distributed_product_mode: 'global',
  load_balancing: FIRST_REPLICA.load_balancing,
  prefer_localhost_replica: 0,
  max_replica_delay_for_distributed_queries: FIRST_REPLICA.max_replica_delay_for_distributed_queries
}

/**
 * Opens a client for queries. Inserts of frames do not go through it: they are bytes that must reach the socket
 * uncopied (see `pipeline/events/insert/insert-frames.ts`).
 *
 * @param options.url  `http://user:password@host:port/database`.
 * @param options.cluster  Name of the cluster; absent or empty: one node.
 */
export function connectClickHouse (options: { url: string, cluster?: string, requestTimeoutMs?: number }): ClickHouse {
  return createClient({
    url: options.url,
    request_timeout: options.requestTimeoutMs ?? 60_000,
    max_open_connections: 8,
    keep_alive: { enabled: true },
    // Long parameters of `query` (no other method) in its body: proxies limit a URL, often to 8 KiB.
    use_multipart_params_auto: true,
    // It would write to the console in a format of its own; anyone who catches an error logs it.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: { wait_end_of_query: 1, log_comment: OUR_LOG_COMMENT, ...options.cluster ? ON_A_CLUSTER : {} }
  })
}

/** The rows of a query, each an object by the names of its columns. */
export async function queryRows<T> (
  clickhouse: Pick<ClickHouse, 'query'>, query: string, params: Record<string, unknown> = {},
  settings: ClickHouseSettings = {}
): Promise<T[]> {
  const result = await clickhouse.query({ query, query_params: params, format: 'JSONEachRow', clickhouse_settings: settings })
  return await result.json<T>()
}

/** A server refuses a parameter of more than 128 KiB (`http_max_field_value_size`); escaping at most doubles it. */
const MAX_LIST_BYTES = 64_000

/** Parts of a list of strings, each of which fits into a parameter of a query. */
export function * chunksOf (values: readonly string[]): Generator<string[]> {
  let chunk: string[] = []
  let bytes = 0
  for (const value of values) {
    const more = Buffer.byteLength(JSON.stringify(value)) + 1
    if (bytes + more > MAX_LIST_BYTES && chunk.length > 0) {
      yield chunk
      chunk = []
      bytes = 0
    }
    chunk.push(value)
    bytes += more
  }
  if (chunk.length > 0) yield chunk
}

/** For inserts into any table but `events`: a user's view that fails, which is reported, does not fail them. */
export const PAST_USER_VIEWS = { materialized_views_ignore_errors: 1 } as const

/** Inserts rows, if any, and returns when they are stored: on a cluster, by every shard they belong to. */
export async function insertRows (
  clickhouse: Pick<ClickHouse, 'insert'>, table: string, values: readonly Record<string, unknown>[]
): Promise<void> {
  const settings: ClickHouseSettings = { async_insert: 0, distributed_foreground_insert: 1, ...PAST_USER_VIEWS }
  await clickhouse.insert({ table, values, format: 'JSONEachRow', clickhouse_settings: settings })
}

/** The parts of a ClickHouse URL, for code that speaks HTTP to it directly. */
export interface ClickHouseAddress {
  origin: string
  database: string
  headers: Record<string, string>
}

export function parseClickHouseUrl (text: string): ClickHouseAddress {
  const url = new URL(text)
  const headers: Record<string, string> = {}
  if (url.username !== '') headers['x-clickhouse-user'] = decodeURIComponent(url.username)
  if (url.password !== '') headers['x-clickhouse-key'] = decodeURIComponent(url.password)
  return { origin: url.origin, database: url.pathname.slice(1) || 'default', headers }
}

/**
 * The URL under which the tables of all shards are read and written.
 *
 * @param cluster  Name of the cluster; empty: one node, whose URL it is.
 */
export function allShardsUrl (url: string, cluster: string): string {
  if (cluster === '') return url
  const changed = new URL(url)
  changed.pathname = `/${databaseOfAllShards(changed.pathname.slice(1))}`
  return changed.href
}

/** `ON CLUSTER ...` of a statement that changes tables; nothing on one node. */
export function onCluster (cluster: string): string {
  return cluster === '' ? '' : `ON CLUSTER ${quoteString(cluster)}`
}

/**
 * The database of the tables of one node, in SQL: of a cluster the current one may be `<database>_all`, whose tables
 * have no parts, sizes or columns of their own.
 */
export const LOCAL_DATABASE = "replaceRegexpOne(currentDatabase(), '_all$', '')"

/** A system table of one replica of each shard: for sizes, which are the same on the others. */
export function systemTableOfShards (cluster: string, table: string): string {
  return cluster === '' ? `system.${table}` : `cluster(${quoteString(cluster)}, system.${table})`
}

export function systemTable (cluster: string, table: string): string {
  return cluster === '' ? `system.${table}` : `clusterAllReplicas(${quoteString(cluster)}, system.${table})`
}

/** A table of ours with the rows of all shards, each once. */
export function onEachShard (cluster: string, table: string): string {
  return cluster === '' ? table : `cluster(${quoteString(cluster)}, currentDatabase(), ${table})`
}

/** A table of ours with the rows that any replica of any shard still has: for making sure that rows are gone. */
export function onEachReplica (cluster: string, table: string): string {
  return cluster === '' ? table : `clusterAllReplicas(${quoteString(cluster)}, currentDatabase(), ${table})`
}

const READ_COMPLETE_THROUGH = `
  SELECT toFloat64(toUnixTimestamp64Milli(max(complete_through))) AS through FROM watermark_reached GROUP BY id`

/**
 * Reads the watermark: the time of receipt up to which everything acknowledged is stored. Whatever is read from
 * `events` afterwards has every acknowledged event that was received before.
 *
 * @returns null while nothing is known.
 * @throws when ClickHouse is unavailable.
 */
export async function readCompleteThrough (clickhouse: ClickHouse): Promise<Date | null> {
  const [row] = await queryRows<{ through: number }>(clickhouse, READ_COMPLETE_THROUGH)
  return row === undefined ? null : new Date(row.through)
}
