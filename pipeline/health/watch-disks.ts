import { systemTable } from '../../platform/clickhouse/cluster-sql.ts'
import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type HealthPart } from '../../platform/health.ts'
import { type Metrics } from '../../platform/metrics.ts'

/** How often the disks are looked at, in milliseconds. */
const POLL_INTERVAL_MS = 5000

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
  stop: () => void
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

  void look()
  const timer = setInterval(() => { void look() }, POLL_INTERVAL_MS)
  return {
    parts: () => disks.map(({ host, disk, free, total }) => ({
      name: `clickhouse disk ${disk} of ${host}`,
      healthy: Number(free) >= FULL_BYTES,
      freeBytes: Number(free),
      totalBytes: Number(total)
    })),
    stop: () => clearInterval(timer)
  }
}
