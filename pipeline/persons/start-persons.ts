import { jetstreamManager } from '@nats-io/jetstream'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { EVENTS_STREAM, PERSONS_PARTITIONS } from '../../schema/wire/streams.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { PartitionSupervisor, type PartitionSupervisorOptions } from '../stream/partition-supervisor.ts'
import { deadLetterUpdates } from './dead-letter-updates.ts'
import { createPersonsMetrics } from './persons-metrics.ts'
import { CopyRunner } from './run-copies.ts'
import { runPersonsPartition } from './persons-partition.ts'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import {
  finishPersonDeletion, type PersonDeletion, selectDeletion
} from '../../platform/persons/finish-person-deletion.ts'

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

/** Interval of polling unfinished deletions, in milliseconds. They are rare, and the law gives days for them. */
const POLL_INTERVAL_MS = 10_000

/** Maximum wait for one deletion in one poll, in milliseconds; ClickHouse goes on, and the next poll asks again. */
const WAIT_MS = 2000

export interface DeletionDeps {
  connection: NatsConnection
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster?: string
  logger: Logger
}

/**
 * Finishes interrupted deletions of persons, and deletes once more when the events that were in flight at the time of
 * the request have been stored.
 */
export function startDeletions (deps: DeletionDeps, pollIntervalMs = POLL_INTERVAL_MS): IntervalLoop {
  return runAtIntervals({
    everyMs: pollIntervalMs,
    run: async (signal) => await finishOpenDeletions(deps, signal),
    logger: deps.logger,
    failure: 'could not finish deletions of persons; retrying',
    stopWithinMs: 2 * WAIT_MS
  })
}

async function finishOpenDeletions (deps: DeletionDeps, signal: AbortSignal): Promise<void> {
  const { sql, connection, logger } = deps
  const open = await sql<PersonDeletion[]>`
    SELECT ${selectDeletion(sql)} FROM person_deletions WHERE swept_at IS NULL ORDER BY id LIMIT 100`
  if (open.length === 0) return
  const arrivedUntil = await findArrivedUntil(connection)
  for (const deletion of open) {
    if (signal.aborted) return
    const isLast = !deletion.withEvents || deletion.requestedAt.getTime() < arrivedUntil
    // Deleted already; the last pass waits for the events in flight.
    if (deletion.doneAt !== null && !isLast) continue
    const { isDone, events } = await finishPersonDeletion(deletion, { ...deps, waitMs: WAIT_MS })
    logger.info({ deletion: deletion.id, isDone, isLast, events }, 'deletion of a person: progress')
    if (isDone && isLast) await sql`UPDATE person_deletions SET swept_at = now() WHERE id = ${deletion.id}`
  }
}

/**
 * Events that reached the stream before this time, in epoch milliseconds, are stored or dead-lettered: messages leave
 * the stream when they are acknowledged.
 */
async function findArrivedUntil (connection: NatsConnection): Promise<number> {
  const askedAt = Date.now()
  const { state } = await readStreamInfo(await jetstreamManager(connection), EVENTS_STREAM)
  return state.messages === 0 ? askedAt : Date.parse(state.first_ts)
}
