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

interface Disk {
  host: string
  disk: string
  free: string
  total: string
}

/** Files that a disk has room for, free and in all; a file system that makes them as they are needed is in no list. */
interface Files {
  free: number
  total: number
}

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
  let files = new Map<string, Files>()
  let nodes: HealthPart[] = []
  const labels = ['host', 'disk'] as const
  const free = metrics.gauge('clickhouse_disk_free_bytes', 'Free bytes on a disk of ClickHouse.', labels)
  const total = metrics.gauge('clickhouse_disk_total_bytes', 'Size of a disk of ClickHouse.', labels)
  const freeFiles = metrics.gauge('clickhouse_disk_free_files', 'Free inodes on a disk of ClickHouse.', labels)
  const totalFiles = metrics.gauge('clickhouse_disk_total_files', 'Inodes of a disk of ClickHouse.', labels)
  Object.assign(free, {
    collect: () => {
      for (const gauge of [free, total, freeFiles, totalFiles]) gauge.reset()
      for (const { host, disk, ...bytes } of disks) {
        free.set({ host, disk }, Number(bytes.free))
        total.set({ host, disk }, Number(bytes.total))
        const counts = files.get(diskKey(host, disk))
        if (counts !== undefined) freeFiles.set({ host, disk }, counts.free)
        if (counts !== undefined) totalFiles.set({ host, disk }, counts.total)
      }
    }
  })

  async function poll (): Promise<void> {
    try {
      const found = await queryRows<Disk>(clickhouse, `
        SELECT ${hostOf(cluster)} AS host, name AS disk, free_space AS free, total_space AS total
        FROM ${systemTable(cluster, 'disks')} SETTINGS ${ANSWERING_NODES}`)
      files = await readFiles(clickhouse, cluster)
      nodes = await countNodes(clickhouse, cluster)
      disks = found
    } catch {
      // ClickHouse is unavailable, which its health check reports. Old numbers would look like current ones.
      disks = []
      nodes = []
    }
  }

  return {
    poll,
    parts: (): HealthPart[] => [...nodes, ...disks.map(({ host, disk, free, total }) => {
      const counts = files.get(diskKey(host, disk))
      return {
        name: `clickhouse disk ${disk} of ${host}`,
        healthy: Number(free) >= FULL_BYTES && (counts === undefined || counts.free >= FULL_FILES),
        freeBytes: Number(free),
        totalBytes: Number(total),
        ...counts === undefined ? {} : { freeFiles: counts.free, totalFiles: counts.total }
      }
    })]
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

/** By {@link diskKey}. Empty when nobody counts them. */
async function readFiles (clickhouse: ClickHouse, cluster: string): Promise<Map<string, Files>> {
  const rows = await queryRows<Files & { host: string }>(clickhouse, `
    SELECT ${hostOf(cluster)} AS host, toFloat64(sumIf(value, metric = 'FilesystemMainPathTotalINodes')) AS total,
      total - sumIf(value, metric = 'FilesystemMainPathUsedINodes') AS free
    FROM ${systemTable(cluster, 'asynchronous_metrics')}
    WHERE metric LIKE 'FilesystemMainPath%INodes' GROUP BY host HAVING total > 0 SETTINGS ${ANSWERING_NODES}`).catch(() => [])
  return new Map(rows.map(({ host, free, total }) => [diskKey(host, MAIN_DISK), { free, total }]))
}

/** Name of a node in SQL; those of a cluster may share a machine. */
export const hostOf = (cluster: string): string => cluster === '' ? 'hostName()' : "concat(hostName(), ':', toString(tcpPort()))"

const diskKey = (host: string, disk: string): string => `${host} ${disk}`

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
