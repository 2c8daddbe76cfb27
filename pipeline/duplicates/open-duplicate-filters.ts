import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { laneKey, type Lane } from '../lanes/lane-record.ts'
import { type PipelineMetrics } from '../metrics.ts'
import { createDuplicateFilter } from './create-duplicate-filter.ts'
import { type DuplicateFilter } from './duplicate-filter.ts'
import { type KnownUuids } from './known-uuids.ts'
import { loadKnownUuids } from './load-known-uuids.ts'
import { createLookUpEvents } from './look-up-events.ts'

/** Opens the filters of the lanes of one process, and keeps their memory from one session of a lane to the next. */
export interface DuplicateFilters {
  open: (lane: Lane, options: { wasMine: boolean }) => Promise<DuplicateFilter>
  /** Frees the memory of a lane that went to another process. */
  close: (lane: Lane) => void
}

export function createDuplicateFilters (deps: { clickhouse: ClickHouse, metrics: PipelineMetrics }): DuplicateFilters {
  const memories = new Map<string, KnownUuids>()
  const lookUpEvents = createLookUpEvents(deps.clickhouse)
  return {
    async open (lane, { wasMine }) {
      const key = laneKey(lane)
      const known = (wasMine ? memories.get(key) : undefined) ?? await loadKnownUuids(deps.clickhouse)
      memories.set(key, known)
      return createDuplicateFilter({
        known, lookUpEvents, onLookUp: (rows) => deps.metrics.confirmedRows.inc({ lane: key }, rows)
      })
    },
    close: (lane) => { memories.delete(laneKey(lane)) }
  }
}
