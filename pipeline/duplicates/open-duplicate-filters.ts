import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { partitionKey, type Partition } from '../partitions/partition-record.ts'
import { type PipelineMetrics } from '../metrics.ts'
import { createDuplicateFilter } from './create-duplicate-filter.ts'
import { type DuplicateFilter } from './duplicate-filter.ts'
import { type KnownUuids } from './known-uuids.ts'
import { loadKnownUuids } from './load-known-uuids.ts'
import { createLookUpEvents } from './look-up-events.ts'

/**
 * Opens the filters of the partitions of one process, and keeps their memory from one session of a partition to the
 * next.
 */
export interface DuplicateFilters {
  open: (partition: Partition, options: { wasMine: boolean }) => Promise<DuplicateFilter>
  /** Frees the memory of a partition that went to another process. */
  close: (partition: Partition) => void
}

export function createDuplicateFilters (deps: { clickhouse: ClickHouse, metrics: PipelineMetrics }): DuplicateFilters {
  const memories = new Map<string, KnownUuids>()
  const lookUpEvents = createLookUpEvents(deps.clickhouse)
  return {
    async open (partition, { wasMine }) {
      const key = partitionKey(partition)
      const known = (wasMine ? memories.get(key) : undefined) ?? await loadKnownUuids(deps.clickhouse)
      memories.set(key, known)
      return createDuplicateFilter({
        known, lookUpEvents, onLookUp: (rows) => deps.metrics.confirmedRows.inc({ partition: key }, rows)
      })
    },
    close: (partition) => { memories.delete(partitionKey(partition)) }
  }
}
