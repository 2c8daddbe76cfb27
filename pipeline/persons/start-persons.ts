import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { PERSONS_PARTITIONS } from '../../schema/wire/streams.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { PartitionSupervisor, type PartitionSupervisorOptions } from '../stream/partition-supervisor.ts'
import { deadLetterUpdates } from './dead-letter-updates.ts'
import { createPersonsMetrics } from './persons-metrics.ts'
import { CopyRunner } from './run-copies.ts'
import { startDeletions } from './run-deletions.ts'
import { runPersonsPartition } from './persons-partition.ts'

/** Default of `maxBatchBytes`: some thousand updates. */
const MAX_BATCH_BYTES = 2_097_152

export interface PersonsDeps {
  connection: NatsConnection
  /** Needs a connection for each busy partition, and one for the copies. */
  sql: Sql
  clickhouse: ClickHouse
  /** The pipeline processes among which the partitions are shared. */
  membership: PartitionSupervisorOptions<number>['membership']
  metrics: Metrics
  logger: Logger
  /** Name of the ClickHouse cluster whose nodes delete persons; empty: one node. */
  cluster?: string
  /** Maximum bytes of messages applied in one transaction. Default 2 MiB. */
  maxBatchBytes?: number
  /** Maximum group types of a project; events with further ones are stored without the group. Default: no limit. */
  maxGroupTypes?: number
  /** Interval of polling unfinished deletions of persons, in milliseconds. Default 10 s. */
  deletionsPollIntervalMs?: number
}

/** The running person applier of one process. */
export interface PersonApplier {
  /** The partitions that this process applies now. */
  states: () => PartitionState[]
  /** Why copying to ClickHouse fails, or null. */
  copiesError: () => string | null
  /** Resolves when the running transactions have ended. Unapplied updates stay in the stream. */
  stop: () => Promise<void>
}

/**
 * Applies what events change about persons and groups, and copies the result to ClickHouse, until stopped:
 *
 * 1. assign the partitions to the processes               ../stream/partition-supervisor.ts
 * 2. read messages in order, without gaps                 persons-reader.ts
 * 3. decode and check each update                         persons-message.ts
 * 4. begin a transaction, lock the partition              persons-partition.ts, apply-batch.ts
 * 5. skip what was applied before                         persons-progress.ts, fingerprints.ts
 * 6. load the persons and groups that the updates name,   apply-updates.ts, load-persons.ts,
 *    as many at a time as fit into memory                 fit-updates.ts
 * 7. change them in memory, in order                      fold-updates.ts, merge-persons.ts, change-properties.ts
 * 8. write the changes and the copies, and commit         write-persons.ts, write-distinct-ids.ts
 * 9. acknowledge                                          persons-partition.ts
 * 10. insert the copies into ClickHouse                   run-copies.ts
 *
 * Updates that can never be applied are dead-lettered (apply-updates.ts, dead-letter-updates.ts). Interrupted
 * deletions of persons are finished (run-deletions.ts).
 *
 * Two processes that both believe to own a partition do no harm: see `lockProgress`.
 */
export function startPersons (deps: PersonsDeps): PersonApplier {
  const logger = deps.logger.child({ part: 'persons' })
  const metrics = createPersonsMetrics(deps.metrics)
  const copies = new CopyRunner({ sql: deps.sql, clickhouse: deps.clickhouse, metrics, logger })
  const letters = { connection: deps.connection, hasRoom: createLetterRoom(deps.connection) }
  const stopping = new AbortController()
  const deletions = startDeletions({ ...deps, logger }, deps.deletionsPollIntervalMs)
  const supervisor = new PartitionSupervisor({
    partitions: new Map(Array.from({ length: PERSONS_PARTITIONS }, (_, partition) => [`persons ${partition}`, partition])),
    chooseOwner: (partition, members) => members[partition % members.length],
    membership: deps.membership,
    logger,
    runPartition: async (partition, control) => await runPersonsPartition({
      ...control, partition, connection: deps.connection, sql: deps.sql, metrics, logger,
      maxBatchBytes: deps.maxBatchBytes ?? MAX_BATCH_BYTES,
      maxGroupTypes: deps.maxGroupTypes ?? Infinity,
      deadLetterUpdates: async (batch, refused) => await deadLetterUpdates(letters, batch, refused),
      waitForRoom: async (signal) => await copies.waitForRoom(signal),
      onCopies: () => copies.notify()
    })
  })
  supervisor.start()
  return {
    states: () => supervisor.states(),
    copiesError: () => copies.lastError,
    async stop () {
      stopping.abort()
      await supervisor.stop()
      await Promise.all([copies.stop(), deletions.stop()])
    }
  }
}
