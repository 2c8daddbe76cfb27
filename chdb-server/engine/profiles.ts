import { totalmem } from 'node:os'
import type { AllowList } from '../analyst/allow-list.ts'
import type { User } from '../http/authenticate.ts'
import { QueryError } from '../http/query-errors.ts'

/** Values of engine settings, by name. */
export type Settings = Readonly<Record<string, string>>

/** Sizes of the session pools; each session that runs needs one thread of the process (see `main.ts`). */
export const POOL_SIZES = {
  // Two cores insert fastest with two to four inserts at a time; more only makes more and smaller parts.
  insert: { size: 4, maxWaiting: 64 },
  // Takes all permits of inserts; lends no session.
  holds: { size: 1, maxWaiting: 8 },
  // The owner's reads and commands, which are short.
  owner: { size: 8, maxWaiting: 128 },
  // Few, because each may be heavy; the queue is short, because analysts and dashboards ask again.
  analyst: { size: 4, maxWaiting: 32, maxOverdue: 4 },
  // Has analysts' queries parsed before they run: a millisecond each.
  guard: { size: 2, maxWaiting: 256 }
} as const

/** Threads that inserts, reads, analysts, the control session and the file system may need at the same time. */
export const THREADS = 32

const GIB = 1_073_741_824

/** The rest is for the other processes of the stack and for the cache of the file system. */
const SHARE_OF_MEMORY = 0.6

/** Statements and forms may be long (lists of ids), but they are held in memory and read in one go. */
export function maxStatementBytes (user: User): number {
  return user === 'analyst' ? 1_048_576 : 16_777_216
}

/** Inserts and reads of the owner: the engine's defaults, but nothing may run indefinitely. */
export const OWNER_PROFILE: Settings = {
  max_execution_time: '3600',
  // Values of parameters count, too, as they come by SET.
  max_query_size: String(maxStatementBytes('owner')),
  // As on a server: a word that is no statement is a syntax error, and no SELECT of a column.
  implicit_select: '0',
  // Formatting on one thread streams as fast as any client reads here, with half the memory.
  output_format_parallel_formatting: '0'
}

/** User `analyst`: what analysts may ask of a machine that must go on taking events meanwhile. */
export const ANALYST_PROFILE: Settings = {
  // Exact counts without thinking: rows that a retry stored twice are merged while reading. Partitions do not share
  // rows of one uuid, so merging across them would be work for nothing.
  final: '1',
  do_not_merge_across_partitions_select_final: '1',
  // All four that may run take at most half of the memory, so that inserts keep theirs; sorting and grouping go to
  // disk well before.
  max_memory_usage: String(analystMemoryBytes()),
  max_bytes_before_external_group_by: String(Math.floor(analystMemoryBytes() / 2)),
  max_bytes_before_external_sort: String(Math.floor(analystMemoryBytes() / 2)),
  max_execution_time: '60',
  // Cancelling and the limit of time take effect between blocks of rows, so none may be large, or made so by range().
  max_block_size: '8192',
  function_range_max_elements_in_block: '500000',
  // A larger result is hardly meant; it is an error, never silently truncated.
  max_result_rows: '5000000',
  max_result_bytes: '2000000000',
  result_overflow_mode: 'throw',
  output_format_parallel_formatting: '0',
  implicit_select: '0',
  max_query_size: String(maxStatementBytes('analyst')),
  max_ast_elements: '50000',
  // Nothing below can be changed any more: 1 refuses writes, table functions that reach out, and SETs.
  readonly: '1'
}

// What an analyst's client may set beside `allow-list.txt`: limits, below the profile's.
export const ANALYST_LIMITS = new Set(['max_memory_usage', 'max_execution_time', 'max_result_rows', 'max_result_bytes', 'max_query_size'])

/**
 * The settings of an analyst's request that are brought in.
 *
 * @throws {QueryError} 164 for any that would loosen a limit or reach beyond the look of the result.
 */
export function vetAnalystSettings (settings: ReadonlyMap<string, string>, allow: AllowList): Map<string, string> {
  const vetted = new Map<string, string>()
  for (const [name, value] of settings) {
    // Clients like to say readonly=1 or 2 themselves; they get what the profile says.
    if (name === 'readonly' && value !== '0') continue
    if (allow.ignoredSettings.has(name)) continue
    vetted.set(name, vetAnalystSetting(allow, name, value))
  }
  return vetted
}

/** The value that an analyst gets: the wanted one, or a limit of the profile that is lower. */
export function vetAnalystSetting (allow: AllowList, name: string, value: string): string {
  const limit = ANALYST_PROFILE[name]
  if (limit !== undefined && ANALYST_LIMITS.has(name)) {
    return /^\d+$/.test(value) && Number(value) > 0 && Number(value) < Number(limit) ? value : limit
  }
  if (allow.settings.has(name)) return value
  throw new QueryError(164, `Cannot modify '${name}' setting in readonly mode`)
}

function analystMemoryBytes (): number {
  return Math.min(8 * GIB, Math.floor(availableMemory() / 2 / POOL_SIZES.analyst.size))
}

/** Memory of this machine, or of the container when that has less, in bytes. */
function availableMemory (): number {
  // 0 or a number beyond all machines where nothing is limited.
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** The guard's own queries, in which an analyst's query is a string: quoted, and hence up to twice as long. */
export const GUARD_PROFILE: Settings = {
  max_execution_time: '10',
  max_memory_usage: String(GIB),
  max_query_size: '8388608',
  implicit_select: '0',
  readonly: '1'
}

/**
 * How long the sources of a merge are kept when its result is there. ClickHouse's own server keeps them for 480 s, the
 * engine of chdb not at all. They are needed when the disk was full under the merge (see `failed-writes.ts`), which
 * is seen within a second; the rest is for a machine that is short of CPU.
 */
const OLD_PARTS_SECONDS = 30

/**
 * The result of a merge that met a full disk is detached at the next start, however large it is: its sources are
 * there. By default the table would not start when such parts have more than 1 GiB.
 */
const ANY_NUMBER_OF_BYTES = 1_000_000_000_000_000

/**
 * Room that no insert and no merge takes, in bytes: both are refused before they could meet a full disk themselves.
 * A hundredth of the disk, from 16 MiB to 1 GiB.
 */
export function keepFreeBytes (diskBytes: number): number {
  return Math.floor(Math.max(16_777_216, Math.min(GIB, diskBytes / 100)))
}

/**
 * The engine's own configuration: memory that suits a machine shared with the rest of the stack, what keeps a full disk
 * from damaging tables, and no statistics of columns, which nobody asks for and which cost small merges a fifth.
 *
 * Its threads wake up less for nothing: a table looks for merges and old parts at each insert, and then after 1 s and a
 * tenth more each time. By default it begins with 0.1 s, and does the same again for continuous queries (`STREAM`),
 * which inserts wake anyway: 30 ms of CPU a second with twelve databases of 20 tables, for minutes.
 *
 * The memory of the control group is not its own: a container, or a unit of systemd, holds the rest of the stack, too.
 *
 * @param options.backupsDir   The one folder into which `BACKUP ... TO File('name')` may write.
 * @param options.memoryBytes  Maximum memory of the process; 0: a share of what there is.
 */
export function engineConfig (
  { backupsDir, memoryBytes, diskBytes }: { backupsDir: string, memoryBytes: number, diskBytes: number }
): string {
  const limit = memoryBytes === 0 ? Math.floor(availableMemory() * SHARE_OF_MEMORY) : memoryBytes
  return `<clickhouse>
  <storage_configuration><disks><default>
    <keep_free_space_bytes>${keepFreeBytes(diskBytes)}</keep_free_space_bytes>
  </default></disks></storage_configuration>
  <merge_tree>
    <old_parts_lifetime>${OLD_PARTS_SECONDS}</old_parts_lifetime>
    <max_suspicious_broken_parts_bytes>${ANY_NUMBER_OF_BYTES}</max_suspicious_broken_parts_bytes>
    <auto_statistics_types></auto_statistics_types>
  </merge_tree>
  <max_server_memory_usage>${limit}</max_server_memory_usage>
  <memory_worker_use_cgroup>0</memory_worker_use_cgroup>
  <mark_cache_size>${Math.min(GIB, Math.floor(limit / 12))}</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <memory_worker_period_ms>500</memory_worker_period_ms>
  <background_processing_pool_thread_sleep_seconds_if_nothing_to_do>1</background_processing_pool_thread_sleep_seconds_if_nothing_to_do>
  <background_streaming_processing_pool_thread_sleep_seconds_if_nothing_to_do>600</background_streaming_processing_pool_thread_sleep_seconds_if_nothing_to_do>
  <backups><allowed_path>${backupsDir.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</allowed_path></backups>
</clickhouse>
`
}
