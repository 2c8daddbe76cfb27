import { systemTable } from '../../platform/clickhouse/clickhouse-cluster.ts'
import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type Metrics } from '../../platform/metrics.ts'

/** How often the disks are looked at, in milliseconds. They fill slowly, and an alert waits for minutes anyway. */
const LOOK_MS = 15_000

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

/** Watches the disks of ClickHouse: once one is full, its lanes stand still. */
export function watchDisks ({ clickhouse, cluster, metrics }: WatchDisksDeps): { stop: () => void } {
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
      // ClickHouse is away, which lanes and health say; old numbers would be taken for current ones.
      disks = []
    }
  }

  void look()
  const timer = setInterval(() => { void look() }, LOOK_MS)
  return { stop: () => clearInterval(timer) }
}
