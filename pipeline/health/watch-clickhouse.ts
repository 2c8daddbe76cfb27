/** Watches the disks and the parts of ClickHouse. */
import type { Logger } from 'pino'
import { type ClickHouse, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import { ANSWERING_NODES } from '../../schema/migrate/clickhouse-topology.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import type { Metrics } from '../../platform/metrics.ts'

/** Interval between two polls, in milliseconds. */
const INTERVAL_MS = 5000

/** A disk with fewer free bytes counts as full: the next merge of parts may find no room. */
const FULL_BYTES = 50_000_000

/** Likewise with fewer free files (inodes): a part is a folder of up to some dozens. */
const FULL_FILES = 500

/** File systems that make files as they are needed have no number of them. */
interface Disk extends Partial<Files> {
  host: string
  disk: string
  freeBytes: number
  totalBytes: number
}

/** Files that a disk has room for, free and in all. */
interface Files { freeFiles: number, totalFiles: number }

export interface WatchClickHouseDeps {
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
  metrics: Metrics
  logger: Logger
}

/** The last known state of ClickHouse's disks and parts, and of the nodes that have them. */
export interface ClickHouseWatch {
  /** Parts of tables, the nodes of a cluster, each disk; the last two not while ClickHouse does not answer. */
  parts: () => HealthPart[]
  stop: () => Promise<void>
}

/** Watches the disks of ClickHouse (once one is full, partitions wait) and the parts that it detached as broken. */
export function watchClickHouse (deps: WatchClickHouseDeps): ClickHouseWatch {
  const disks = watchDisks(deps)
  const parts = watchParts(deps)
  const { stop } = runAtIntervals({
    everyMs: INTERVAL_MS, run: async () => { await Promise.all([disks.poll(), parts.poll()]) }
  })
  return { parts: () => [parts.part(), ...disks.parts()], stop }
}

function watchDisks ({ clickhouse, cluster, metrics }: WatchClickHouseDeps) {
  let disks: Disk[] = []
  let nodes: HealthPart[] = []
  const show = (name: string, help: string, of: keyof Omit<Disk, 'host' | 'disk'>): void =>
    metrics.gaugesFrom(name, help, ['host', 'disk'], () => disks.flatMap(({ host, disk, [of]: value }) =>
      value === undefined ? [] : [[{ host, disk }, value] as const]))
  show('clickhouse_disk_free_bytes', 'Free bytes on a disk of ClickHouse.', 'freeBytes')
  show('clickhouse_disk_total_bytes', 'Size of a disk of ClickHouse.', 'totalBytes')
  show('clickhouse_disk_free_files', 'Free inodes on a disk of ClickHouse.', 'freeFiles')
  show('clickhouse_disk_total_files', 'Inodes of a disk of ClickHouse.', 'totalFiles')

  async function poll (): Promise<void> {
    try {
      const found = await queryRows<Disk>(clickhouse, `
        SELECT ${hostOf(cluster)} AS host, name AS disk, toFloat64(free_space) AS freeBytes, toFloat64(total_space) AS totalBytes
        FROM ${systemTable(cluster, 'disks')} SETTINGS ${ANSWERING_NODES}`)
      const files = await readFiles(clickhouse, cluster)
      nodes = await countNodes(clickhouse, cluster)
      disks = found.map((each) =>
        ({ ...each, ...each.disk === MAIN_DISK && files.find(({ host }) => host === each.host) }))
    } catch {
      // ClickHouse is unavailable, which its health check reports. Old numbers would look like current ones.
      disks = []
      nodes = []
    }
  }

  return {
    poll,
    parts: (): HealthPart[] => [...nodes, ...disks.map(({ host, disk, ...room }) => ({
      name: `clickhouse disk ${disk} of ${host}`,
      healthy: room.freeBytes >= FULL_BYTES && (room.freeFiles ?? Infinity) >= FULL_FILES,
      ...room
    }))]
  }
}

/** None on one node. */
async function countNodes (clickhouse: ClickHouse, cluster: string): Promise<HealthPart[]> {
  if (cluster === '') return []
  const [row] = await queryRows<{ answering: string, all: string }>(clickhouse, `
    SELECT (SELECT count() FROM ${systemTable(cluster, 'one')}) AS answering,
      (SELECT count() FROM system.clusters WHERE cluster = {cluster: String}) AS all
    SETTINGS ${ANSWERING_NODES}`, { cluster })
  const [answering, all] = [Number(row?.answering), Number(row?.all)]
  return [{ name: 'clickhouse nodes', healthy: answering === all, answering, all }]
}

/** The disk that has ClickHouse's own folder: of no other does a server count the files. */
const MAIN_DISK = 'default'

/** Of each node; empty when nobody counts them. */
async function readFiles (clickhouse: ClickHouse, cluster: string): Promise<(Files & { host: string })[]> {
  return await queryRows<Files & { host: string }>(clickhouse, `
    SELECT ${hostOf(cluster)} AS host, toFloat64(sumIf(value, metric = 'FilesystemMainPathTotalINodes')) AS totalFiles,
      totalFiles - sumIf(value, metric = 'FilesystemMainPathUsedINodes') AS freeFiles
    FROM ${systemTable(cluster, 'asynchronous_metrics')}
    WHERE metric LIKE 'FilesystemMainPath%INodes' GROUP BY host HAVING totalFiles > 0 SETTINGS ${ANSWERING_NODES}`).catch(() => [])
}

/** Name of a node in SQL; those of a cluster may share a machine. */
export const hostOf = (cluster: string): string => cluster === '' ? 'hostName()' : "concat(hostName(), ':', toString(tcpPort()))"

/** Maximum number of parts that `/_health` names; the log names all. */
const NAMED_PARTS = 10

/**
 * Parts that ClickHouse detached because it cannot read them, or (replicated) because Keeper does not know them. Parts
 * that an operator detached have no reason; for those with the reasons `ignored` and `clone` an intact part is in use.
 */
const BROKEN = "(reason LIKE '%broken%' OR reason IN ('unexpected', 'noquorum'))"

interface BrokenPart {
  host: string
  table: string
  name: string
  reason: string
}

/**
 * Watches for parts of our tables that ClickHouse detached as broken. ClickHouse only writes a line to its own log, and
 * from then on answers queries without their rows. They are reported until an operator attaches or drops them
 * (docs/run/operations.md).
 */
function watchParts ({ clickhouse, cluster, metrics, logger }: WatchClickHouseDeps) {
  let broken: BrokenPart[] = []
  let reported = new Set<string>()
  metrics.gaugeFrom('clickhouse_broken_parts',
    'Parts that ClickHouse detached as broken; queries lack their rows.', () => broken.length)

  async function poll (): Promise<void> {
    try {
      broken = await queryRows<BrokenPart>(clickhouse, `
        SELECT ${hostOf(cluster)} AS host, table, name, assumeNotNull(reason) AS reason
        FROM ${systemTable(cluster, 'detached_parts')}
        WHERE database = currentDatabase() AND ${BROKEN} ORDER BY host, table, name SETTINGS ${ANSWERING_NODES}`)
    } catch {
      // ClickHouse is unavailable, which its health check reports. What was broken still is.
      return
    }
    for (const part of broken) {
      if (!reported.has(keyOf(part))) {
        logger.error(part, 'ClickHouse detached a broken part: its rows are missing in all queries until it is restored')
      }
    }
    reported = new Set(broken.map(keyOf))
  }

  return {
    poll,
    part: (): HealthPart => ({
      name: 'clickhouse parts',
      healthy: broken.length === 0,
      broken: broken.length,
      parts: broken.slice(0, NAMED_PARTS)
    })
  }
}

const keyOf = ({ host, table, name }: BrokenPart): string => `${host} ${table} ${name}`
