/** Watches the disks and the parts of ClickHouse. */
import { type Logger } from 'pino'
import { systemTable } from '../../platform/clickhouse/cluster-sql.ts'
import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type HealthPart } from '../../platform/health.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import { type Metrics } from '../../platform/metrics.ts'

/** How often the disks are looked at, in milliseconds. */
const DISKS_INTERVAL_MS = 5000

/** With less than this, in bytes, a disk counts as full: the next merge of parts may find no room. */
const FULL_BYTES = 50_000_000

interface Disk {
  host: string
  disk: string
  free: string
  total: string
}

export interface WatchDisksDeps {
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
  metrics: Metrics
}

/** What is known of the disks. */
export interface DiskWatch {
  /** One part a disk, empty until the first answer and while ClickHouse does not answer. */
  parts: () => HealthPart[]
  stop: () => Promise<void>
}

/** Watches the disks of ClickHouse: once one is full, its partitions stand still. */
export function watchDisks ({ clickhouse, cluster, metrics }: WatchDisksDeps): DiskWatch {
  let disks: Disk[] = []
  const labels = ['host', 'disk'] as const
  const free = metrics.gauge('clickhouse_disk_free_bytes', 'Free bytes of a disk of ClickHouse.', labels)
  const total = metrics.gauge('clickhouse_disk_total_bytes', 'Size of a disk of ClickHouse.', labels)
  Object.assign(free, {
    collect: () => {
      for (const gauge of [free, total]) gauge.reset()
      for (const { host, disk, ...bytes } of disks) {
        free.set({ host, disk }, Number(bytes.free))
        total.set({ host, disk }, Number(bytes.total))
      }
    }
  })

  async function look (): Promise<void> {
    try {
      const result = await clickhouse.query({
        query: `SELECT hostName() AS host, name AS disk, free_space AS free, total_space AS total
          FROM ${systemTable(cluster, 'disks')}`,
        format: 'JSONEachRow'
      })
      disks = await result.json<Disk>()
    } catch {
      // ClickHouse is unavailable, which partitions and health say; old numbers would be taken for current ones.
      disks = []
    }
  }

  const { stop } = runAtIntervals({ everyMs: DISKS_INTERVAL_MS, run: look })
  return {
    parts: () => disks.map(({ host, disk, free, total }) => ({
      name: `clickhouse disk ${disk} of ${host}`,
      healthy: Number(free) >= FULL_BYTES,
      freeBytes: Number(free),
      totalBytes: Number(total)
    })),
    stop
  }
}

/** How often ClickHouse is asked, in milliseconds. It sets parts aside when it starts and when it cannot read one. */
const PARTS_INTERVAL_MS = 15_000

/** Parts that `/_health` names; the log names all. */
const NAMED_PARTS = 10

/**
 * Parts that ClickHouse took away because it cannot read them, or (replicated) because Keeper does not know them. Parts
 * that an operator detached have no reason; `ignored` and `clone` have a whole part in their place.
 */
const BROKEN = "(reason LIKE '%broken%' OR reason IN ('unexpected', 'noquorum'))"

interface BrokenPart {
  host: string
  table: string
  name: string
  reason: string
}

export interface WatchPartsDeps {
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
  metrics: Metrics
  logger: Logger
}

/** What is known of parts that ClickHouse detached. */
export interface PartWatch {
  part: () => HealthPart
  stop: () => Promise<void>
}

/**
 * Watches for parts of our tables that ClickHouse detached as broken. It does so with a line in its own log only, and
 * answers queries without their rows from then on. They stay known until an operator attached or dropped them
 * (docs/operations.md).
 */
export function watchParts ({ clickhouse, cluster, metrics, logger }: WatchPartsDeps): PartWatch {
  let broken: BrokenPart[] = []
  let said = new Set<string>()
  metrics.gaugeFrom('clickhouse_broken_parts',
    'Parts that ClickHouse detached as broken: their rows are missing in every query.', () => broken.length)

  async function look (): Promise<void> {
    try {
      const result = await clickhouse.query({
        query: `SELECT hostName() AS host, table, name, assumeNotNull(reason) AS reason
          FROM ${systemTable(cluster, 'detached_parts')}
          WHERE database = currentDatabase() AND ${BROKEN} ORDER BY host, table, name`,
        format: 'JSONEachRow'
      })
      broken = await result.json<BrokenPart>()
    } catch {
      // ClickHouse is unavailable, which partitions and health say. What was broken is so still.
      return
    }
    for (const part of broken) {
      if (!said.has(keyOf(part))) {
        logger.error(part, 'ClickHouse set a part aside as broken: its rows are missing until it is restored')
      }
    }
    said = new Set(broken.map(keyOf))
  }

  const { stop } = runAtIntervals({ everyMs: PARTS_INTERVAL_MS, run: look })
  return {
    part: () => ({
      name: 'clickhouse parts',
      healthy: broken.length === 0,
      broken: broken.length,
      parts: broken.slice(0, NAMED_PARTS)
    }),
    stop
  }
}

function keyOf ({ host, table, name }: BrokenPart): string {
  return `${host} ${table} ${name}`
}
