import { hash } from 'node:crypto'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLetterRoom, type HasLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { PERSONS_PARTITIONS, personsSubject } from '../../schema/wire/streams.ts'
import type { RunAnnounced } from '../announced-work.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { PartitionSupervisor, type PartitionSupervisorOptions } from '../stream/partition-supervisor.ts'
import { createPersonsMetrics } from './persons-metrics.ts'
import { CopyRunner } from './run-copies.ts'
import { runPersonsPartition } from './persons-partition.ts'
import { startDeletions } from './deletion/run-deletions.ts'
import { DeadLettersFullError, publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import type { PersonsBatch } from './persons-message.ts'
import type { RefusedUpdate } from './persons-outcome.ts'
import { startRepairs } from './repair-persons.ts'

/** Default of `maxBatchBytes`: some thousand updates. */
const MAX_BATCH_BYTES = 2_097_152

export interface PersonsDeps {
  connection: NatsConnection
  /** Needs a connection for each busy partition, and one for the copies. */
  sql: Sql
  clickhouse: ClickHouse
  /** The pipeline processes among which the partitions are shared. */
  membership: PartitionSupervisorOptions<number>['membership']
  /** Runs deletions and repairs. Default: looks for them every time. */
  run?: RunAnnounced
  metrics: Metrics
  logger: Logger
  /** Name of the ClickHouse cluster whose nodes delete persons; empty: one node. */
  cluster?: string
  /** Maximum bytes of messages applied in one transaction. Default 2 MiB. */
  maxBatchBytes?: number
  /** Maximum group types of a project; events with further ones are stored without the group. Default: no limit. */
  maxGroupTypes?: number
  /** Interval of looking for deletions and repairs of persons, in milliseconds. Default a second. */
  pollIntervalMs?: number
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
 * 8. write the changes and the copies, and commit         write-persons.ts
 * 9. acknowledge                                          persons-partition.ts
 * 10. insert the copies into ClickHouse                   run-copies.ts
 *
 * Updates that can never be applied are dead-lettered (apply-updates.ts, `deadLetterUpdates`). Persons that the
 * API deleted are deleted from ClickHouse (deletion/); requested repairs are carried out (repair-persons.ts).
 *
 * Two processes that both believe to own a partition do no harm: see `lockProgress`.
 */
export function startPersons (deps: PersonsDeps): PersonApplier {
  const logger = deps.logger.child({ part: 'persons' })
  const metrics = createPersonsMetrics(deps.metrics)
  const copies = new CopyRunner({ sql: deps.sql, clickhouse: deps.clickhouse, metrics, logger })
  const letters = { connection: deps.connection, hasRoom: createLetterRoom(deps.connection) }
  const deletions = startDeletions({ ...deps, logger }, deps.pollIntervalMs)
  const repairs = startRepairs({ ...deps, logger, onCopies: () => copies.notify() }, deps.pollIntervalMs)
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
      await supervisor.stop()
      await Promise.all([copies.stop(), deletions.stop(), repairs.stop()])
    }
  }
}

/**
 * Letters on their way at a time. A batch may refuse 15,000 updates, and Postgres ends a transaction that waits longer
 * than 30 s for their answers one by one, again and again.
 */
const LETTERS_AT_ONCE = 64

/**
 * Dead-letters refused updates of a batch, in their order; resolves when the dead-letter stream has stored all of them.
 * Those for which it has no room (`letter-room.ts`) are left out: nobody else's updates wait until somebody empties it.
 * Of each the ingestion warning remains, with the uuid of its event, which is stored.
 *
 * The id of a dead letter is the sequence of its message and a hash of its content: a repeated transaction does not
 * store it twice, and one that is replayed at once, and refused again, is stored again.
 *
 * @returns those that are left out.
 * @throws when that stream is unavailable: NATS is, and the partition waits. Some letters may be stored.
 */
export async function deadLetterUpdates (
  { connection, hasRoom }: { connection: NatsConnection, hasRoom: HasLetterRoom },
  batch: PersonsBatch, refused: readonly RefusedUpdate[]
): Promise<RefusedUpdate[]> {
  const sequenceOf = findSequences(batch)
  const leftOut: RefusedUpdate[] = []
  for (let at = 0; at < refused.length; at += LETTERS_AT_ONCE) {
    await Promise.all(refused.slice(at, at + LETTERS_AT_ONCE).map(async (update) => {
      if (!await keep(update)) leftOut.push(update)
    }))
  }
  return leftOut

  async function keep (update: RefusedUpdate): Promise<boolean> {
    const { reason, detail, code, payload, projectId, uuid } = update
    if (!await hasRoom(projectId, payload.length)) return false
    const sequence = sequenceOf(update)
    try {
      const id = `persons:${reason}:${sequence}:${hash('sha1', payload)}`
      await publishDeadLetter(connection, {
        id, stage: 'persons', subject: personsSubject(batch.partition), sequence, headers: {}, body: payload,
        reason, error: detail, ...(code !== undefined && { errorCode: code }),
        ...(projectId !== undefined && { project: projectId }), ...(uuid !== undefined && { uuid })
      })
      return true
    } catch (error) {
      if (error instanceof DeadLettersFullError) return false
      throw error
    }
  }
}

/** Tells in which message an update came: the first that has its event, since an SDK may have sent it again. */
function findSequences ({ messages }: PersonsBatch): (refused: RefusedUpdate) => number {
  const byUuid = new Map<string, number>()
  const byItem = new Map<RefusedUpdate, number>()
  for (const { sequence, updates, refused } of messages) {
    for (const item of refused) byItem.set(item, sequence)
    for (const { uuid } of updates) if (!byUuid.has(uuid)) byUuid.set(uuid, sequence)
  }
  return (refused) => byItem.get(refused) ?? byUuid.get(refused.uuid ?? '') ?? messages[0]?.sequence ?? 0
}
