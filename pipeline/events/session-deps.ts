/** What the sessions of a partition are given, apart from the session so that the parts of a session know it too. */
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { InsertLedgerRows } from '../accounting/ledger-writer.ts'
import type { PipelineMetrics } from '../pipeline-metrics.ts'
import type { Partition } from '../stream/find-partitions.ts'
import type { PartitionControl } from '../stream/partition-supervisor.ts'
import type { BatchLimits } from './batch-range.ts'
import type { RecordDuplicates } from './duplicates/record-duplicates.ts'
import type { InsertFrames } from './insert/insert-frames.ts'
import type { IsInserting, ReadTarget } from './insert/insert-target.ts'

/** What a session writes to in ClickHouse. */
export interface EventStore {
  insertFrames: InsertFrames
  readTarget: ReadTarget
  isInserting: IsInserting
  /** Its rows go to several shards. */
  isDistributed?: boolean
  insertLedgerRows: InsertLedgerRows
  /** Whether the table is as every frame expects it. */
  probeTable: () => Promise<boolean>
  recordDuplicates: RecordDuplicates
}

/** What the sessions of a partition need, besides its reader, its lease and its filter. */
export interface SessionDeps extends PartitionControl {
  partition: Partition
  connection: NatsConnection
  store: EventStore
  limits: BatchLimits
  metrics: PipelineMetrics
  logger: Logger
}
